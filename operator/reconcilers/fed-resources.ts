import type { Clock } from '@tollway/chassis/clock.ts'
import { createSlices, type Slices } from '@tollway/chassis/slices.ts'
import type { Infrastructure } from '../infrastructure/provider.ts'
import type { Claims } from '../kinds/claims.ts'
import type { Doubt, KindAdapter, Named } from '../kinds/kind-adapter.ts'
import type { Translation } from '../kinds/translation.ts'
import type { Source, SourcedResource } from '../sources/source.ts'
import type { Condition } from '../status/conditions.ts'
import type { ResourceStatus } from '../status/resource-status.ts'
import type { ContentFeed } from '../xds/content-feed.ts'
import { type Chosen, chooseContents, type Ready, translateResource } from './choose-contents.ts'
import { type Departed, markHeirs } from './departures.ts'
import { createStatuses, type SharedFacts } from './derive-statuses.ts'
import { gather } from './gather.ts'
import type { Memory, Remembered } from './remembered.ts'

export interface FedResourcesOptions<Content, Fed> {
  readonly source: Pick<Source, 'list' | 'unread'>
  readonly remembered: Remembered<Content>
  readonly feed: ContentFeed<Fed>
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

export interface FedResources<Content> {
  /**
   * Rejects if the feed cannot carry the contents. The statuses then have the cause, and the last feed stays.
   */
  reconcile(): Promise<void>
  /** Returns the contents in the feed, in the order of the names. */
  inForce(): readonly Content[]
}

/**
 * Publishes every resource of a kind, and writes its status. The steps are: gather, translate, choose,
 * complete, publish, remember, write status. Each step handles all resources, because they share
 * exclusive claims and the feed. An unchanged resource costs each step a comparison: its translation, its
 * encoding, its memory and its status are those of the run before. Long runs are divided into slices.
 */
export function createFedResources<Content extends Named, Fed>(
  kind: KindAdapter<Content, Fed>,
  options: FedResourcesOptions<Content, Fed>,
): FedResources<Content> {
  const { source, remembered, feed, infrastructure, clock } = options
  const translations = createTranslations(kind)
  const statuses = createStatuses<Content, Fed>(kind, { clock, storedConditions: options.storedConditions })
  let inForce: readonly Content[] = []
  let memories: ReadonlyMap<string, Memory<Content>> = new Map()

  async function gatherAll(slices: Slices) {
    const resources = source.list()
    translations.retain(resources)
    const sighting = {
      resources,
      unread: source.unread(),
      memories: remembered.all(),
      nowMs: clock.nowMs(),
    }
    return gather(kind, sighting, translations.of, slices)
  }

  async function completeAll(
    all: readonly Chosen<Content>[],
    slices: Slices,
  ): Promise<readonly Ready<Content, Fed>[]> {
    if (kind.prepare) await kind.prepare(all.flatMap(({ content }) => content ?? []))
    const ready: Ready<Content, Fed>[] = []
    for (const { name, resource, memory, translation, denial, content } of all) {
      const completed = content && kind.complete(content, memory.firstSeenMs)
      if (completed !== undefined) feed.encode(completed.fed)
      ready.push({ name, resource, memory, translation, denial, content, completed })
      await slices.rest()
    }
    return ready
  }

  /** Returns why the feed rejected the contents; undefined when it carries them. */
  function publish(all: readonly Ready<Content, Fed>[]): Error | undefined {
    try {
      feed.publish(all.flatMap(({ completed }) => (completed ? [completed.fed] : [])))
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
      const all = await completeAll(chosen, slices)
      const failure = publish(all)
      await slices.rest()
      const replicas = infrastructure.observe(kind.workload)
      const uids = replicas.map(({ uid }) => uid)
      const shared: SharedFacts<Fed> = {
        uids,
        taking: replicas.flatMap(({ ready, uid }) => (ready ? [uid] : [])),
        switchedOff: options.switchedOff,
        unpublished: failure?.message,
        backendFailure: options.backendFailure?.(kind.workload),
        obstacle: options.obstacle?.(kind.workload),
        enforcement: feed.enforcement(uids),
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

/** Translates a resource once, until it changes. */
function createTranslations<Content extends Named>(kind: KindAdapter<Content>) {
  const known = new Map<string, { readonly resource: SourcedResource; readonly made: Translation<Content> }>()

  function of(resource: SourcedResource): Translation<Content> {
    const before = known.get(resource.uid)
    if (before?.resource === resource) return before.made
    const made = translateResource(kind, resource)
    known.set(resource.uid, { resource, made })
    return made
  }

  /** Forgets the translations of all other resources. */
  function retain(resources: readonly SourcedResource[]): void {
    if (known.size === 0) return
    const uids = new Set(resources.map(({ uid }) => uid))
    for (const uid of known.keys()) if (!uids.has(uid)) known.delete(uid)
  }

  return { of, retain }
}

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
