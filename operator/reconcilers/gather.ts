import type { Slices } from '@tollway/chassis/slices.ts'
import { apiGroup } from '@tollway/crds/resource-kind.ts'
import type { KindAdapter, Named } from '../kinds/kind-adapter.ts'
import type { Translation } from '../kinds/translation.ts'
import type { SourcedResource, SourceProblem } from '../sources/source.ts'
import { type Gathered, nameOf } from './choose-contents.ts'
import { type Departed, findDeparted } from './departures.ts'
import type { Memories, Memory } from './remembered.ts'

interface Sighting<Content> {
  /** The resources of any kind. */
  readonly resources: readonly SourcedResource[]
  /** See `Source.unread`. */
  readonly unread: readonly SourceProblem[]
  /** The memories of resources of the kind. */
  readonly memories: Memories<Content>
  /** The time at which resources without a memory count as first seen. */
  readonly nowMs: number
}

interface AllGathered<Content> {
  readonly gathered: readonly Gathered<Content>[]
  readonly departed: readonly Departed<Content>[]
}

/**
 * Resolves with every resource of the kind, with its translation and its memory, in the order of the names.
 * The result also has resources that were in force and that may be in an unreadable file. A source remembers
 * these until a restart; after it, only their memory keeps them in force. `departed` has those that were
 * deleted a short time ago.
 */
export async function gather<Content extends Named>(
  { definition }: Pick<KindAdapter<Content>, 'definition'>,
  { resources, unread, memories, nowMs }: Sighting<Content>,
  translate: (resource: SourcedResource) => Translation<Content>,
  slices: Slices,
): Promise<AllGathered<Content>> {
  const present: Gathered<Content>[] = []
  for (const resource of resources) {
    if (resource.kind !== definition.kind) continue
    const firstSeenMs = resource.createdMs ?? nowMs
    const memory = presentMemory(memories.get(resource.uid)) ?? { firstSeenMs, origin: resource.origin }
    present.push(
      resource.paused
        ? heldAsItWas(resource, memory)
        : { name: nameOf(resource), resource, memory, translation: translate(resource) },
    )
    await slices.rest()
  }
  const uids = new Set(present.map(({ resource }) => resource.uid))
  const apiVersion = `${apiGroup}/${definition.version}`
  const hidden: Gathered<Content>[] = []
  for (const [uid, memory] of unread.length === 0 ? [] : memories.entries()) {
    const isDeleted = memory.goneSinceMs !== undefined
    const found =
      uids.has(uid) || isDeleted
        ? undefined
        : hiddenResource({ apiVersion, kind: definition.kind, uid }, memory, unread)
    if (found === undefined) continue
    hidden.push(found)
    uids.add(uid)
  }
  return {
    gathered: [...present, ...hidden].sort((a, b) => (a.name < b.name ? -1 : 1)),
    departed: findDeparted(memories, uids, nowMs),
  }
}

/** A file that declares a deleted resource again continues its age, and not its last good content. */
function presentMemory<Content>(memory: Memory<Content> | undefined): Memory<Content> | undefined {
  if (memory?.goneSinceMs === undefined) return memory
  return { firstSeenMs: memory.firstSeenMs, origin: memory.origin }
}

/** A paused resource keeps the content that is in force, and its spec is ignored. */
function heldAsItWas<Content>(resource: SourcedResource, memory: Memory<Content>): Gathered<Content> {
  const { lastGood, lastGoodGeneration = 0 } = memory
  const translation: Translation<Content> =
    lastGood === undefined
      ? {
          problems: [
            { path: 'metadata.annotations', message: 'it is paused, and no version of it is in force' },
          ],
        }
      : { value: lastGood, warnings: [] }
  const held = { ...resource, generation: lastGoodGeneration }
  return { name: nameOf(resource), resource: held, memory, translation }
}

function hiddenResource<Content extends Named>(
  identity: Pick<SourcedResource, 'apiVersion' | 'kind' | 'uid'>,
  memory: Memory<Content>,
  unread: readonly SourceProblem[],
): Gathered<Content> | undefined {
  const { lastGood, origin } = memory
  const own = unread.find(problem => fileOf(problem.origin) === fileOf(origin))
  const hiding = own ?? unread[0]
  if (lastGood === undefined || hiding === undefined) return undefined
  const [namespace = '', name = ''] = lastGood.name.split('/')
  const resource = {
    ...identity,
    namespace,
    name,
    generation: 0,
    paused: false,
    spec: undefined,
    origin,
  }
  const what = own
    ? 'the resource cannot be read'
    : 'the resource was removed here, and another file may declare it'
  const message = `${what}: ${hiding.origin}: ${hiding.message}`
  return { name: lastGood.name, resource, memory, translation: { problems: [{ path: '', message }] } }
}

/** Returns the file of an origin: `shop/limits.yaml` for `shop/limits.yaml#2.items[0]`. */
function fileOf(origin: string): string {
  return origin.replace(/#\d+(\.items\[\d+\])?$/, '')
}
