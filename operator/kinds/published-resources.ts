import type { Clock } from '@tollway/chassis/clock.ts'
import { oncePerObject } from '@tollway/chassis/once-per-object.ts'
import { createSlices, type Slices } from '@tollway/chassis/slices.ts'
import { apiGroup } from '@tollway/crds/resource-kind.ts'
import type { Infrastructure } from '../infrastructure/provider.ts'
import type { StatusCondition } from '../status/conditions.ts'
import type { ResourceStatus } from '../status/resource-status.ts'
import { createSnapshot, type Resource, type Snapshot } from '../xds/snapshot.ts'
import {
  type ChosenResource,
  chooseContents,
  type DeletedResource,
  type EncodedResource,
  findRecentlyDeleted,
  type GatheredResource,
  type MemoryStore,
  markSuccessors,
  type ResourceMemories,
  type ResourceMemory,
  translateResource,
} from './choose-contents.ts'
import type { Claims } from './claims.ts'
import { createStatuses, type ResourceEnforcement, type SharedFacts } from './derive-statuses.ts'
import type { Advisory, KindAdapter, Named, Translation } from './kind-adapter.ts'
import type { Source, SourcedResource, SourceProblem } from './source.ts'
import { qualifiedName } from './source.ts'

interface PublishedResourcesOptions<Content> {
  readonly source: Pick<Source, 'list' | 'unread'>
  readonly remembered: MemoryStore<Content>
  readonly feed: {
    /** Publishes the snapshot. If the feed cannot carry it, throws, and keeps the previous snapshot. */
    publish(snapshot: Snapshot): void
    /**
     * Returns a function that tells which of the clients with these uids acknowledged a resource exactly as
     * given, and which clients, these and others, rejected it.
     */
    enforcement(typeUrl: string, uids: readonly string[]): (resource: Resource) => ResourceEnforcement
  }
  readonly infrastructure: Pick<Infrastructure, 'observe'>
  readonly clock: Clock
  /**
   * Why no process runs that would enforce the kind, and which setting to change; undefined if processes run.
   */
  readonly switchedOff?: string | undefined
  /**
   * Returns the message of the condition Degraded if the backend of a workload fails; otherwise undefined.
   */
  readonly backendFailure?: (workload: string) => string | undefined
  /** Returns the error of the last request to change a workload's processes; undefined if it succeeded. */
  readonly obstacle?: (workload: string) => string | undefined
  /**
   * Returns the stored conditions of a resource, whose transition times are kept; left out if statuses are
   * not stored.
   */
  storedConditions?(resource: SourcedResource): readonly StatusCondition[]
  /**
   * Called to request a run after this time, because the end of a kept claim is no change that triggers one.
   */
  recheckAfter(ms: number): void
  /**
   * Called with the statuses of all resources of the kind. An unchanged status is the same object as before.
   */
  writeStatus(statuses: readonly ResourceStatus[]): void
}

/**
 * Publishes every resource of a kind, and writes its status. The steps are: gather, translate, choose,
 * complete, encode, publish, write status, remember. Each step handles all resources, because they share the
 * feed and exclusive claims. For an unchanged resource each step only compares: `oncePerObject` keeps
 * translations, completed contents and encodings by the object that they are made from, and statuses and
 * memories are compared with those of the previous run. A long run yields to the event loop between slices.
 */
export function createPublishedResources<Content extends Named, Published extends object>(
  kind: KindAdapter<Content, Published>,
  options: PublishedResourcesOptions<Content>,
) {
  const { source, remembered, feed, infrastructure, clock } = options
  const translate = oncePerObject((resource: SourcedResource) => translateResource(kind, resource))
  const encode = oncePerObject((content: Published) => kind.encode(content))
  const statuses = createStatuses<Content>(kind, { clock, storedConditions: options.storedConditions })
  let inForce: readonly Content[] = []
  let published: readonly Resource[] | undefined
  let memories: ReadonlyMap<string, ResourceMemory<Content>> = new Map()

  async function gatherAll(slices: Slices) {
    const resources = source.list()
    const found = {
      resources,
      unread: source.unread(),
      memories: remembered.all(),
      nowMs: clock.nowMs(),
    }
    return gather(kind, found, translate, slices)
  }

  async function completeAndEncode(
    all: readonly ChosenResource<Content>[],
    slices: Slices,
  ): Promise<readonly EncodedResource<Content>[]> {
    if (kind.prepare) await kind.prepare(all.flatMap(({ content }) => content ?? []))
    const ready: EncodedResource<Content>[] = []
    for (const { name, resource, memory, translation, denial, content } of all) {
      const completed = content && kind.complete(content, memory.firstSeenMs)
      const encoded = completed && encode(completed.published)
      const unmet = completed?.unmet
      ready.push({ name, resource, memory, translation, denial, content, encoded, unmet })
      await slices.yieldIfDue()
    }
    return ready
  }

  /** Returns why the feed cannot carry the contents; undefined if it does. */
  function publish(all: readonly EncodedResource<Content>[]): Error | undefined {
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
    /** Returns the contents in the feed, in the order of their names. */
    inForce: () => inForce,
    /**
     * Rejects if the feed cannot carry the contents. Then the feed keeps its previous contents, and the
     * statuses say why.
     */
    async reconcile(): Promise<void> {
      const slices = createSlices()
      const { gathered: found, departed } = await gatherAll(slices)
      await slices.yieldIfDue()
      const claims = kind.openClaims()
      const gathered = markSuccessors(found, departed, claims)
      const chosen = await chooseContents(gathered, claims, slices, departed)
      const all = await completeAndEncode(chosen, slices)
      const failure = publish(all)
      await slices.yieldIfDue()
      const replicas = infrastructure.observe(kind.workload)
      const uids = replicas.map(({ uid }) => uid)
      const shared: SharedFacts = {
        uids,
        accepting: replicas.flatMap(({ ready, uid }) => (ready ? [uid] : [])),
        switchedOff: options.switchedOff,
        unpublished: failure?.message,
        backendFailure: options.backendFailure?.(kind.workload),
        obstacle: options.obstacle?.(kind.workload),
        enforcement: feed.enforcement(kind.typeUrl, uids),
        advisories: kind.findAdvisories?.(all.flatMap(({ content }) => content ?? [])) ?? noAdvisories,
      }
      const derived = await statuses.derive(all, shared, slices)
      try {
        options.writeStatus(derived)
      } finally {
        // If the statuses cannot be written, the memories are stored nevertheless.
        memories = await updateMemories(all, departed, memories, {
          claims,
          slices,
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

const noAdvisories = new Map<string, Advisory>()

interface MemoryOptions<Content> {
  readonly claims: Pick<Claims<Content>, 'toKey'>
  readonly published: boolean
  readonly slices: Slices
}

/** Only published content becomes the last good content. An unchanged memory is the same object as before. */
async function updateMemories<Content>(
  all: readonly ChosenResource<Content>[],
  departed: readonly DeletedResource<Content>[],
  before: ReadonlyMap<string, ResourceMemory<Content>>,
  options: MemoryOptions<Content>,
): Promise<ReadonlyMap<string, ResourceMemory<Content>>> {
  const memories = new Map(departed.map(({ uid, memory }) => [uid, memory]))
  for (const item of all) {
    const { uid } = item.resource
    memories.set(uid, updateMemory(item, before.get(uid), options))
    await options.slices.yieldIfDue()
  }
  return memories
}

/** Reads `memory.lastGood` only when needed, because reading it may mean decoding it. */
function updateMemory<Content>(
  { resource, memory, translation, content }: ChosenResource<Content>,
  before: ResourceMemory<Content> | undefined,
  { claims, published }: MemoryOptions<Content>,
): ResourceMemory<Content> {
  const lastGood = (published ? content : undefined) ?? memory.lastGood
  const isPresent = 'value' in translation && translation.value === lastGood
  const lastGoodGeneration = isPresent ? resource.generation : memory.lastGoodGeneration
  const isHeir =
    memory.heirOf !== undefined && content !== undefined && claims.toKey(content) === memory.heirOf
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

interface GatherOptions<Content> {
  readonly resources: readonly SourcedResource[]
  readonly unread: readonly SourceProblem[]
  readonly memories: ResourceMemories<Content>
  /** Resources that have neither a memory nor a creation time count as first seen at this time. */
  readonly nowMs: number
}

interface AllGathered<Content> {
  readonly gathered: readonly GatheredResource<Content>[]
  readonly departed: readonly DeletedResource<Content>[]
}

/**
 * Resolves with every resource of the kind, its translation and its memory, in the order of the names. A
 * remembered resource that may be declared in an unreadable file is included, so that it stays in force.
 * `departed` has the resources that were deleted less than `claimGraceMs` ago.
 */
export async function gather<Content extends Named>(
  { definition }: Pick<KindAdapter<Content>, 'definition'>,
  { resources, unread, memories, nowMs }: GatherOptions<Content>,
  translate: (resource: SourcedResource) => Translation<Content>,
  slices: Slices,
): Promise<AllGathered<Content>> {
  const present: GatheredResource<Content>[] = []
  for (const resource of resources) {
    if (resource.kind !== definition.kind) continue
    const firstSeenMs = resource.createdMs ?? nowMs
    const memory = presentMemory(memories.get(resource.uid)) ?? { firstSeenMs, origin: resource.origin }
    present.push(
      resource.paused
        ? keepPaused(resource, memory)
        : { name: qualifiedName(resource), resource, memory, translation: translate(resource) },
    )
    await slices.yieldIfDue()
  }
  const uids = new Set(present.map(({ resource }) => resource.uid))
  const apiVersion = `${apiGroup}/${definition.version}`
  const hidden: GatheredResource<Content>[] = []
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
    departed: findRecentlyDeleted(memories, uids, nowMs),
  }
}

/** A resource that is declared again after its deletion keeps its age, but not its last good content. */
function presentMemory<Content>(
  memory: ResourceMemory<Content> | undefined,
): ResourceMemory<Content> | undefined {
  if (memory?.goneSinceMs === undefined) return memory
  return { firstSeenMs: memory.firstSeenMs, origin: memory.origin }
}

/** A paused resource keeps the content in force; its spec is ignored. */
function keepPaused<Content>(
  resource: SourcedResource,
  memory: ResourceMemory<Content>,
): GatheredResource<Content> {
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
  return { name: qualifiedName(resource), resource: held, memory, translation }
}

function hiddenResource<Content extends Named>(
  identity: Pick<SourcedResource, 'apiVersion' | 'kind' | 'uid'>,
  memory: ResourceMemory<Content>,
  unread: readonly SourceProblem[],
): GatheredResource<Content> | undefined {
  const { lastGood, origin } = memory
  const own = unread.find(problem => removeIndex(problem.origin) === removeIndex(origin))
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
function removeIndex(origin: string): string {
  return origin.replace(/#\d+(\.items\[\d+\])?$/, '')
}
