import { randomUUID } from 'node:crypto'
import { link, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { dump } from 'js-yaml'
import { ApiError } from '../../../api/errors.ts'
import { type AppliedResource, type ApplyRequest, assertVersion, hashManifest } from '../../../api/sources.ts'
import type { Source } from '../../../kinds/source.ts'
import { parseManifests } from './manifests.ts'
import { findDeclaration, readDeclared } from './read-from-folder.ts'
import { type ManifestName, replaceDocument } from './replace-document.ts'

const kind = 'RateLimitConfig'

/**
 * Returns a function that writes a RateLimitConfig into the file that declares it, or else into a new file of
 * the folder. Other documents of the file keep their text. It rejects with an `ApiError` of status 409 if the
 * file cannot be changed, if the document has another version than the request, or if another program changes
 * the file at the same time.
 *
 * @param folder the folder of the manifests, or a single file
 */
export function applyToFolder(folder: string, source: Pick<Source, 'list'>) {
  return async (request: ApplyRequest): Promise<AppliedResource> => {
    const { namespace, name, dryRun } = request
    const resource = { kind, namespace, name }
    const document = toDocument(request)
    const isFile = (await stat(folder)).isFile()
    const version = hashManifest(document)
    const known = findDeclaration(source, resource)
    if (known === undefined) {
      assertVersion(request, undefined)
      return { ...(await createFile(folder, isFile, resource, document, dryRun)), version }
    }
    const { path, origin, text: before, document: current } = await readDeclared(folder, known)
    assertVersion(request, hashManifest(current))
    const replaced = replaceDocument(before, origin, resource, document)
    if ('problem' in replaced) throw conflict(replaced.problem)
    if (!dryRun) await replaceFile(path, before, replaced.text, origin)
    return { created: false, origin, version }
  }
}

/** Returns the text to write. @throws ApiError if `manifest` is not the YAML of `resource` */
function toDocument({ resource, manifest, namespace, name }: ApplyRequest): string {
  if (manifest === undefined) return dump(resource, { noRefs: true, lineWidth: 100 })
  const text = manifest.replace(/^---[ \t]*\r?\n/, '')
  const read = parseManifests(text, 'manifest')
  const [only, ...others] = 'error' in read ? [] : read.manifests
  const expected = { kind, namespace, name, spec: resource['spec'] }
  const found = only && { kind: only.kind, namespace: only.namespace, name: only.name, spec: only.spec }
  if (others.length === 0 && isDeepStrictEqual(found, expected)) return `${text.trim()}\n`
  throw new ApiError(
    'invalid',
    'manifest: differs from the field resource; expected the same resource as YAML',
  )
}

async function createFile(
  folder: string,
  isFile: boolean,
  { namespace, name }: ManifestName,
  document: string,
  dryRun: boolean,
): Promise<Omit<AppliedResource, 'version'>> {
  if (isFile) throw conflict(`${basename(folder)} does not declare the resource; add it to the file`)
  const origin = namespace === 'default' ? `${name}.yaml` : `${namespace}-${name}.yaml`
  const path = join(folder, origin)
  if (await exists(path)) throw conflict(`${origin} exists and does not declare the resource`)
  if (dryRun) return { created: true, origin }
  const temporary = await writeBeside(path, document, 0o644)
  try {
    // A link fails if another program has created the file meanwhile. A rename would replace that file.
    await link(temporary, path)
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'EEXIST' ? conflict(`${origin} exists already`) : error
  } finally {
    await rm(temporary, { force: true })
  }
  return { created: true, origin }
}

async function replaceFile(path: string, before: string, text: string, origin: string): Promise<void> {
  const { mode } = await stat(path)
  const temporary = await writeBeside(path, text, mode & 0o777)
  try {
    if ((await readFile(path, 'utf8')) !== before)
      throw conflict(`${origin} has just been changed; try again`)
    await rename(temporary, path)
  } finally {
    await rm(temporary, { force: true })
  }
}

/** Writes a temporary file, whose name starts with a dot so that it is not read as a manifest. */
async function writeBeside(path: string, text: string, mode: number): Promise<string> {
  const temporary = join(dirname(path), `.${basename(path)}.${randomUUID()}`)
  await writeFile(temporary, text, { mode, flush: true })
  return temporary
}

const exists = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  )

const conflict = (message: string) => new ApiError('conflict', message)
