import { isDeepStrictEqual } from 'node:util'
import type { SourcedResource, SourceProblem } from '../../../kinds/source.ts'
import type { Manifest } from './manifests.ts'

export interface FileContent {
  readonly path: string
  readonly manifests: readonly Manifest[]
  /**
   * False if a part of the file cannot be parsed. That part may declare resources that were in the file
   * before.
   */
  readonly complete: boolean
  readonly problems: readonly SourceProblem[]
}

interface ResourceSetOptions {
  /** How long a resource must be missing before it counts as deleted. */
  readonly deleteAfterMs: number
  readonly maxResources: number
}

interface Chosen {
  readonly manifest: Manifest
  readonly path: string
}

interface Entry extends Chosen {
  readonly resource: SourcedResource
  goneSinceMs: number | undefined
}

/**
 * The resources of all files with their generations. While a file is rewritten, its resources stay. No
 * resource counts as deleted while any file cannot be parsed, because that file may declare it: the file may
 * have been edited or renamed, or the resource moved from another file.
 */
export function createResourceSet(options: ResourceSetOptions) {
  const entries = new Map<string, Entry>()
  let list: readonly SourcedResource[] = []
  let problems: readonly SourceProblem[] = []
  let unread: readonly SourceProblem[] = []
  /**
   * A resource that returns after its deletion has the same uid, so it must get a generation that it never
   * had.
   */
  let highestDeleted = 0

  const put = ({ manifest, path }: Chosen): boolean => {
    const entry = entries.get(manifest.uid)
    if (entry?.manifest === manifest) {
      entry.goneSinceMs = undefined
      return false
    }
    const same = entry !== undefined && sameContent(entry.manifest, manifest)
    const generation = (entry?.resource.generation ?? highestDeleted) + (same ? 0 : 1)
    const unmoved = same && hasSameEnvelope(entry.manifest, manifest)
    const resource = unmoved ? entry.resource : { ...manifest, generation }
    entries.set(manifest.uid, { manifest, path, resource, goneSinceMs: undefined })
    return !unmoved
  }

  const expire = (uid: string, entry: Entry, nowMs: number): number => {
    entry.goneSinceMs ??= nowMs
    const leftMs = entry.goneSinceMs + options.deleteAfterMs - nowMs
    if (leftMs > 0) return leftMs
    highestDeleted = Math.max(highestDeleted, entry.resource.generation)
    entries.delete(uid)
    return 0
  }

  return {
    /**
     * Sets the current contents of the files, in the order of precedence. `nowMs` is monotonic. Returns
     * whether `list` or `problems` has changed, and after which time to call it again because a resource will
     * then count as deleted.
     */
    update(
      files: Iterable<FileContent>,
      moreProblems: readonly SourceProblem[],
      nowMs: number,
    ): { readonly changed: boolean; readonly nextInMs: number | undefined } {
      const chosen = choose([...files], options.maxResources)
      const hiding = [...moreProblems, ...chosen.ofFiles]
      const held: SourceProblem[] = []
      let changed = false
      let nextInMs: number | undefined
      for (const one of chosen.resources.values()) if (put(one)) changed = true
      for (const [uid, entry] of entries) {
        if (chosen.resources.has(uid)) continue
        if (hiding[0] !== undefined) {
          entry.goneSinceMs = undefined
          if (!chosen.incomplete.has(entry.path)) held.push(describeRetained(entry.resource, hiding[0]))
          continue
        }
        const leftMs = expire(uid, entry, nowMs)
        if (leftMs === 0) changed = true
        else nextInMs = Math.min(nextInMs ?? leftMs, leftMs)
      }
      if (changed) list = Array.from(entries.values(), ({ resource }) => resource)
      const found = [...hiding, ...chosen.doubles, ...held]
      if (!isDeepStrictEqual(found, problems)) {
        problems = found
        unread = hiding
        changed = true
      }
      return { changed, nextInMs }
    },
    list: (): readonly SourcedResource[] => list,
    problems: (): readonly SourceProblem[] => problems,
    /** Returns the problems of files that may declare a missing resource. */
    unread: (): readonly SourceProblem[] => unread,
  }
}

function describeRetained(
  { kind, namespace, name, origin }: SourcedResource,
  hiding: SourceProblem,
): SourceProblem {
  const why = `${hiding.origin} may declare it, and cannot be read`
  return { origin, message: `${kind} ${namespace}/${name} is not here any more and stays in force: ${why}` }
}

function choose(files: readonly FileContent[], maxResources: number) {
  const resources = new Map<string, Chosen>()
  const ofFiles = files.flatMap(file => file.problems)
  const doubles: SourceProblem[] = []
  const beyond: Manifest[] = []
  for (const { path, manifests } of files) {
    for (const manifest of manifests) {
      const first = resources.get(manifest.uid)?.manifest
      const { kind, namespace, name, origin } = manifest
      if (first !== undefined) {
        doubles.push({
          origin,
          message: `${kind} ${namespace}/${name} is already declared in ${first.origin}`,
        })
      } else if (resources.size < maxResources) resources.set(manifest.uid, { manifest, path })
      else beyond.push(manifest)
    }
  }
  if (beyond[0] !== undefined) {
    const message = `at most ${maxResources} resources are allowed; ${beyond.length} more are not taken`
    doubles.push({ origin: beyond[0].origin, message })
  }
  const incomplete = new Set(files.filter(file => !file.complete).map(file => file.path))
  return { resources, ofFiles, doubles, incomplete }
}

function hasSameEnvelope(a: Manifest, b: Manifest): boolean {
  return a.origin === b.origin && a.paused === b.paused && a.rotation === b.rotation
}

function sameContent(a: Manifest, b: Manifest): boolean {
  return a.apiVersion === b.apiVersion && isDeepStrictEqual(a.spec, b.spec)
}
