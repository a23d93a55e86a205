import { isDeepStrictEqual } from 'node:util'
import { type Manifest, parseManifests } from './manifests.ts'

export interface ManifestName {
  readonly kind: string
  readonly namespace: string
  readonly name: string
}

/** The new or found text, or why the file cannot be changed. */
type Replaced = { readonly text: string } | { readonly problem: string }

/**
 * Replaces the document of one resource in a file. The text of all other documents stays.
 *
 * @param document the new text of the document, without a document marker
 */
export function replaceDocument(
  text: string,
  path: string,
  resource: ManifestName,
  document: string,
): Replaced {
  const before = parseManifestsOrNone(text, path)
  const parts = splitAtMarkers(text)
  const index = findPart(parts, path, resource)
  if (index < 0) return { problem: inList(path) }
  // The first part starts at the beginning of the file, every other one right after a marker.
  const part = `${index === 0 ? '' : '\n'}${document.trim()}\n`
  const changed = parts.with(index, part).join('---')
  const after = parseManifestsOrNone(changed, path)
  const isOther = (manifest: Manifest) => !isNamed(manifest, resource)
  const isKept = isDeepStrictEqual(after.filter(isOther).map(content), before.filter(isOther).map(content))
  return isKept && after.length === before.length
    ? { text: changed }
    : { problem: `${path} cannot be changed without its other documents; edit the file` }
}

export function findDocument(text: string, path: string, resource: ManifestName): Replaced {
  const parts = splitAtMarkers(text)
  const part = parts[findPart(parts, path, resource)]
  return part === undefined ? { problem: inList(path) } : { text: `${part.trim()}\n` }
}

function findPart(parts: readonly string[], path: string, resource: ManifestName): number {
  return parts.findIndex(part => {
    const [only, ...others] = parseManifestsOrNone(part, path)
    return only !== undefined && others.length === 0 && !isItem(only) && isNamed(only, resource)
  })
}

const inList = (path: string) => `${path} declares the resource in a list; edit the file`

/** Splits a file at its markers `---`, which YAML allows only at the start of a line. */
function splitAtMarkers(text: string): readonly string[] {
  return text.split(/^---(?=\s|$)/m)
}

function parseManifestsOrNone(text: string, path: string): readonly Manifest[] {
  const read = parseManifests(text, path)
  return 'error' in read ? [] : read.manifests
}

const isItem = ({ origin }: Manifest) => /\.items\[\d+\]$/.test(origin)

const isNamed = (manifest: Manifest, { kind, namespace, name }: ManifestName) =>
  manifest.kind === kind && manifest.namespace === namespace && manifest.name === name

const content = ({ kind, namespace, name, spec }: Manifest) => ({ kind, namespace, name, spec })
