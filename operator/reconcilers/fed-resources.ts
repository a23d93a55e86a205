import type { Clock } from '@tollway/chassis/clock.ts'
import { oncePerObject } from '@tollway/chassis/once-per-object.ts'
import { createSlices, type Slices } from '@tollway/chassis/slices.ts'
import type { Infrastructure } from '../infrastructure/provider.ts'
import type { Claims } from '../kinds/claims.ts'
import type { Doubt, KindAdapter, Named } from '../kinds/kind-adapter.ts'
import type { Source, SourcedResource } from '../sources/source.ts'
import type { Condition } from '../status/conditions.ts'
import type { ResourceStatus } from '../status/resource-status.ts'
import { createSnapshot, type Resource, type Snapshot } from '../xds/snapshot.ts'
import { type Chosen, chooseContents, type Ready, translateResource } from './choose-contents.ts'
import { type Departed, markHeirs } from './departures.ts'
import { createStatuses, type ResourceEnforcement, type SharedFacts } from './derive-statuses.ts'
import { gather } from './gather.ts'
import type { Memory, Remembered } from './remembered.ts'

interface FedResourcesOptions<Content> {
  readonly source: Pick<Source, 'list' | 'unread'>
  readonly remembered: Remembered<Content>
  readonly feed: {
    /** Throws if the feed cannot carry the snapshot; the last one stays then. */
    publish(snapshot: Snapshot): void
    /** Returns for any resource which of these clients enforce exactly that content, and which rejected it. */
    enforcement(typeUrl: string, uids: readonly string[]): (resource: Resource) => ResourceEnforcement
  }
  readonly infrastructure: Pick<Infrastructure, 'observe'>
  readonly clock: Clock
  /** Why no process runs that would enforce the kind, and the value to change; undefined if processes run. */
  readonly switchedOff?: string | undefined
  /** Returns why the backend of a workload fails; undefined while it answers. */
  readonly backendFailure?: (workload: string) => string | undefined
  /** Returns the last error of changes to the processes of a workload; undefined if there is none. */
  readonly obstacle?: (workload: string) => string | undefined
  /**
   * Returns the stored conditions of a resource, whose times are kept; left out if statuses do not outlive
   * this process.
   */
  storedConditions?(resource: SourcedResource): readonly Condition[]
  /** Called when a run is needed after this time, although nothing may have changed. */
  recheckAfter(ms: number): void
  /** Called with the statuses of all resources of the kind. A status is the same object until it changes. */
  writeStatus(statuses: readonly ResourceStatus[]): void
}

interface FedResources<Content> {
  /**
   * Rejects if the feed cannot carry the contents. The statuses then have the cause, and the last feed stays.
   */
  reconcile(): Promise<void>
  /** Returns the contents in the feed, in the order of the names. */
  inForce(): readonly Content[]
}

/**
 * Publishes every resource of a kind, and writes its status. The steps are: gather, translate, choose,
 * complete, encode, publish, write status, remember. Each step handles all resources, because they share
 * exclusive claims and the feed. An unchanged resource costs each step a comparison. Translations, completed
 * contents and encodings are kept by the identity of the object that they are made from (`oncePerObject`);
 * statuses and memories are compared with those of the run before. Long runs are divided into slices.
 */
export function createFedResources<Content extends Named, Fed extends object>(
  kind: KindAdapter<Content, Fed>,
  options: FedResourcesOptions<Content>,
): FedResources<Content> {
  const { source, remembered, feed, infrastructure, clock } = options
  const translate = oncePerObject((resource: SourcedResource) => translateResource(kind, resource))
  const encode = oncePerObject((content: Fed) => kind.encode(content))
  const statuses = createStatuses<Content>(kind, { clock, storedConditions: options.storedConditions })
  let inForce: readonly Content[] = []
  let published: readonly Resource[] | undefined
  let memories: ReadonlyMap<string, Memory<Content>> = new Map()

  async function gatherAll(slices: Slices) {
    const resources = source.list()
    const sighting = {
      resources,
      unread: source.unread(),
      memories: remembered.all(),
      nowMs: clock.nowMs(),
    }
    return gather(kind, sighting, translate, slices)
  }

  async function completeAndEncode(
    all: readonly Chosen<Content>[],
    slices: Slices,
  ): Promise<readonly Ready<Content>[]> {
    if (kind.prepare) await kind.prepare(all.flatMap(({ content }) => content ?? []))
    const ready: Ready<Content>[] = []
    for (const { name, resource, memory, translation, denial, content } of all) {
      const completed = content && kind.complete(content, memory.firstSeenMs)
      const encoded = completed && encode(completed.fed)
      const lacking = completed?.lacking
      ready.push({ name, resource, memory, translation, denial, content, encoded, lacking })
      await slices.rest()
    }
    return ready
  }

  /** Returns why the feed rejected the contents; undefined when it carries them. */
  function publish(all: readonly Ready<Content>[]): Error | undefined {
    try {
      const resources = all.flatMap(({ encoded }) => encoded ?? [])
      const isSame =
        resources.length === published?.length && resources.every((one, index) => one === published?.[index])
      if (!isSame) feed.publish(createSnapshot(kind.typeUrl, resources))
      published = resources
      inForce = all.flatMap(({ content }) => content ?? [])
      return undefined
    } catch (error) {
      return error as Error
    }
  }

  return {
    inForce: () => inForce,
    async reconcile() {
      const slices = createSlices()
      const { gathered: found, departed } = await gatherAll(slices)
      await slices.rest()
      const claims = kind.openClaims()
      const gathered = markHeirs(found, departed, claims)
      const chosen = await chooseContents(gathered, claims, slices, departed)
      const all = await completeAndEncode(chosen, slices)
      const failure = publish(all)
      await slices.rest()
      const replicas = infrastructure.observe(kind.workload)
      const uids = replicas.map(({ uid }) => uid)
      const shared: SharedFacts = {
        uids,
        taking: replicas.flatMap(({ ready, uid }) => (ready ? [uid] : [])),
        switchedOff: options.switchedOff,
        unpublished: failure?.message,
        backendFailure: options.backendFailure?.(kind.workload),
        obstacle: options.obstacle?.(kind.workload),
        enforcement: feed.enforcement(kind.typeUrl, uids),
        doubts: kind.doubtsOf?.(all.flatMap(({ content }) => content ?? [])) ?? noDoubts,
      }
      const derived = await statuses.derive(all, shared, slices)
      try {
        options.writeStatus(derived)
      } finally {
        // Statuses and memories are stored independently: a failure to write the statuses does not prevent
        // the memories.
        memories = await memoriesOf(all, departed, memories, {
          ...{ claims, slices },
          published: failure === undefined,
        })
        remembered.replace(memories)
      }
      const nextEndMs = Math.min(...departed.map(({ endMs }) => endMs))
      if (departed.length > 0) options.recheckAfter(nextEndMs - clock.nowMs())
      if (failure !== undefined) throw failure
    },
  }
}

const noDoubts = new Map<string, Doubt>()

interface MemoryOptions<Content> {
  readonly claims: Pick<Claims<Content>, 'keyOf'>
  readonly published: boolean
  readonly slices: Slices
}

/** Only published content becomes the last good version. A memory is the same object until it changes. */
async function memoriesOf<Content>(
  all: readonly Chosen<Content>[],
  departed: readonly Departed<Content>[],
  before: ReadonlyMap<string, Memory<Content>>,
  options: MemoryOptions<Content>,
): Promise<ReadonlyMap<string, Memory<Content>>> {
  const memories = new Map(departed.map(({ uid, memory }) => [uid, memory]))
  for (const item of all) {
    const { uid } = item.resource
    memories.set(uid, memoryOf(item, before.get(uid), options))
    await options.slices.rest()
  }
  return memories
}

/** A memory that was read from elsewhere may have to be decoded, so it is read only when needed. */
function memoryOf<Content>(
  { resource, memory, translation, content }: Chosen<Content>,
  before: Memory<Content> | undefined,
  { claims, published }: MemoryOptions<Content>,
): Memory<Content> {
  const lastGood = (published ? content : undefined) ?? memory.lastGood
  const isPresent = 'value' in translation && translation.value === lastGood
  const lastGoodGeneration = isPresent ? resource.generation : memory.lastGoodGeneration
  const isHeir =
    memory.heirOf !== undefined && content !== undefined && claims.keyOf(content) === memory.heirOf
  const isSame =
    memory === before &&
    isHeir === (memory.heirOf !== undefined) &&
    lastGood === memory.lastGood &&
    lastGoodGeneration === memory.lastGoodGeneration &&
    memory.origin === resource.origin
  if (isSame) return memory
  const { firstSeenMs } = memory
  const good = lastGood === undefined ? {} : { lastGood, ...(lastGoodGeneration && { lastGoodGeneration }) }
  return { firstSeenMs, origin: resource.origin, ...good, ...(isHeir && { heirOf: memory.heirOf }) }
}
