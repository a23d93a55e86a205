import type { Clock } from '@tollway/chassis/clock.ts'
import { type Condition, withTransitionTimes } from '../controller/conditions.ts'
import type { Infrastructure, Replica } from '../infrastructure/provider.ts'
import type { Completed, FedKind, Named } from '../kinds/fed-kind.ts'
import type { Source, SourcedResource } from '../sources/source.ts'
import type { Translation } from '../translate/translation.ts'
import type { ContentFeed } from '../xds/content-feed.ts'
import { type Chosen, chooseContents, type Gathered, translateResource } from './choose-contents.ts'
import { gather } from './gather.ts'
import type { Memory, Remembered } from './remembered.ts'
import { deriveConditions, type Facts, type ResourceStatus } from './resource-status.ts'

export interface FedResourcesOptions<Content, Fed> {
  readonly source: Pick<Source, 'list' | 'unread'>
  readonly remembered: Remembered<Content>
  readonly feed: ContentFeed<Fed>
  readonly infrastructure: Pick<Infrastructure, 'observe'>
  readonly clock: Clock
  /** Why no process is to run that would enforce the kind, and what to change; undefined where some are. */
  readonly switchedOff?: string | undefined
  /** The conditions that were written before, where that outlives this process: their times are kept. */
  storedConditions?(resource: SourcedResource): readonly Condition[]
  /** The one place where status is written: those of all resources of the kind. */
  writeStatus(statuses: readonly ResourceStatus[]): void
}

export interface FedResources<Content> {
  /**
   * Rejects when the feed cannot carry what there is; the statuses then say so, and the last feed goes on.
   */
  reconcile(): Promise<void>
  /** What the feed carries, in the order of the names. */
  inForce(): readonly Content[]
}

/** With what goes out of it, if anything does. */
interface Ready<Content, Fed> extends Chosen<Content> {
  readonly completed: Completed<Fed> | undefined
}

/** What is the same for all resources in one run. */
interface Surroundings {
  readonly replicas: readonly Replica[]
  readonly uids: readonly string[]
  readonly switchedOff: string | undefined
  /** Why the feed did not take what should be in force. */
  readonly unpublished: string | undefined
}

/**
 * Makes the feed carry every resource of a kind that there is, and tells how far each one got. Gather, translate,
 * choose, complete, publish, remember, write status: each step looks at all resources, for they share what only
 * one can have, and the feed.
 */
export function createFedResources<Content extends Named, Fed>(
  kind: FedKind<Content, Fed>,
  options: FedResourcesOptions<Content, Fed>,
): FedResources<Content> {
  const { source, remembered, feed, infrastructure, clock } = options
  const translate = createTranslations(kind)
  let statuses: ReadonlyMap<string, ResourceStatus> = new Map()
  let inForce: readonly Content[] = []

  function gatherAll(): readonly Gathered<Content>[] {
    const resources = source.list()
    translate.retain(resources)
    const sighting = {
      resources,
      unread: source.unread(),
      memories: remembered.all(),
      nowMs: clock.nowMs(),
    }
    return gather(kind, sighting, translate.of)
  }

  async function completeAll(all: readonly Chosen<Content>[]): Promise<readonly Ready<Content, Fed>[]> {
    if (kind.prepare) await kind.prepare(all.flatMap(({ content }) => content ?? []))
    return all.map(item => ({
      ...item,
      completed: item.content && kind.complete(item.content, item.memory.firstSeenMs),
    }))
  }

  /** Answers why the feed did not take it. */
  function publish(all: readonly Ready<Content, Fed>[]): Error | undefined {
    try {
      feed.publish(all.flatMap(({ completed }) => (completed ? [completed.fed] : [])))
      inForce = all.flatMap(({ content }) => content ?? [])
      return undefined
    } catch (error) {
      return error as Error
    }
  }

  function statusOf(item: Ready<Content, Fed>, surroundings: Surroundings): ResourceStatus {
    const { resource, content, translation } = item
    const facts = factsOf(item, feed, surroundings)
    const old = options.storedConditions?.(resource) ?? statuses.get(resource.uid)?.conditions ?? []
    const present = 'value' in translation ? translation.value : undefined
    return {
      kind: resource.kind,
      namespace: resource.namespace,
      name: resource.name,
      uid: resource.uid,
      origin: resource.origin,
      observedGeneration: resource.generation,
      subject: kind.subjectOf(present ?? content, resource.spec),
      counts: kind.countsOf(content, surroundings.uids),
      enforced: `${facts.enforcing}/${facts.running}`,
      problems: facts.problems,
      conditions: withTransitionTimes(old, deriveConditions(facts), resource.generation, clock.nowMs()),
    }
  }

  return {
    inForce: () => inForce,
    async reconcile() {
      const all = await completeAll(chooseContents(gatherAll(), kind.openClaims()))
      const failure = publish(all)
      const replicas = infrastructure.observe(kind.workload)
      const uids = replicas.map(({ uid }) => uid)
      const { switchedOff } = options
      const surroundings = { replicas, uids, switchedOff, unpublished: failure?.message }
      statuses = new Map(all.map(item => [item.resource.uid, statusOf(item, surroundings)]))
      try {
        options.writeStatus([...statuses.values()])
      } finally {
        // Each is kept for itself: of one that cannot be written the other does not know.
        remembered.replace(memoriesOf(all, failure === undefined))
      }
      if (failure !== undefined) throw failure
    },
  }
}

/** Most resources are the same as last time. */
function createTranslations<Content extends Named>(kind: FedKind<Content>) {
  const known = new Map<string, { readonly resource: SourcedResource; readonly made: Translation<Content> }>()
  return {
    of(resource: SourcedResource): Translation<Content> {
      const before = known.get(resource.uid)
      if (before?.resource === resource) return before.made
      const made = translateResource(kind, resource)
      known.set(resource.uid, { resource, made })
      return made
    },
    retain(resources: readonly SourcedResource[]): void {
      const uids = new Set(resources.map(({ uid }) => uid))
      for (const uid of known.keys()) if (!uids.has(uid)) known.delete(uid)
    },
  }
}

/** What was not published was never good. */
function memoriesOf<Content>(
  all: readonly Chosen<Content>[],
  published: boolean,
): ReadonlyMap<string, Memory<Content>> {
  const memories = all.map(({ resource, memory, translation, content }): [string, Memory<Content>] => {
    const lastGood = (published ? content : undefined) ?? memory.lastGood
    const isPresent = 'value' in translation && translation.value === lastGood
    const lastGoodGeneration = isPresent ? resource.generation : memory.lastGoodGeneration
    const { firstSeenMs } = memory
    const { origin, uid } = resource
    const good = lastGood === undefined ? {} : { lastGood, ...(lastGoodGeneration && { lastGoodGeneration }) }
    return [uid, { firstSeenMs, origin, ...good }]
  })
  return new Map(memories)
}

const nobody = { acknowledged: new Set<string>(), refusals: [] }

function factsOf<Content, Fed>(
  item: Ready<Content, Fed>,
  feed: ContentFeed<Fed>,
  { replicas, uids, switchedOff, unpublished }: Surroundings,
): Facts {
  const { translation, refusal, content, completed } = item
  const present = 'value' in translation ? translation.value : undefined
  const taking = replicas.filter(({ ready }) => ready)
  const { acknowledged, refusals } =
    completed === undefined || unpublished !== undefined ? nobody : feed.enforcement(completed.fed, uids)
  return {
    problems: 'problems' in translation ? translation.problems : [],
    refusal: present ? refusal : undefined,
    paused: item.resource.paused,
    inForce: content === undefined ? 'nothing' : content === present ? 'present' : 'last-good',
    unpublished,
    lacking: completed?.lacking,
    switchedOff,
    running: taking.length,
    enforcing: taking.filter(({ uid }) => acknowledged.has(uid)).length,
    refusals: content === present ? refusals : [],
  }
}
