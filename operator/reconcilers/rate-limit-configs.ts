import type { Clock } from '@tollway/chassis/clock.ts'
import { type Condition, withTransitionTimes } from '../controller/conditions.ts'
import type { Infrastructure, Replica } from '../infrastructure/provider.ts'
import type { RateLimitDomain } from '../ir.ts'
import type { Source, SourcedResource } from '../sources/source.ts'
import { countLimits, type Translation } from '../translate/translate-rate-limit-config.ts'
import { type Chosen, chooseContents, type Gathered, translateResource } from './choose-contents.ts'
import type { Reservations } from './claim-domains.ts'
import { gather } from './gather.ts'
import type { Memory, Remembered } from './remembered.ts'
import { deriveConditions, type Facts, type ResourceStatus } from './resource-status.ts'

/** The feed, as this reconciler sees it. */
export interface RateLimitFeed {
  /**
   * Every domain that shall be in force; those that are not among them end. Throws when it cannot carry
   * them.
   */
  publish(domains: readonly RateLimitDomain[]): void
  /** Which of these clients enforce the domain as published, and which refused it. */
  enforcement(
    domain: RateLimitDomain,
    uids: readonly string[],
  ): {
    readonly acknowledged: ReadonlySet<string>
    readonly refusals: readonly { readonly pod: string; readonly message: string }[]
  }
}

export interface RateLimitConfigsOptions {
  readonly source: Source
  readonly remembered: Remembered
  readonly feed: RateLimitFeed
  readonly infrastructure: Pick<Infrastructure, 'observe'>
  readonly clock: Clock
  /** Domains that only some namespaces may have. */
  readonly reservations?: Reservations
  /** The conditions that were written before, where that outlives this process: their times are kept. */
  storedConditions?(resource: SourcedResource): readonly Condition[]
  /** The one place where status is written. */
  writeStatus(statuses: readonly ResourceStatus[]): void
}

export interface RateLimitConfigs {
  /**
   * Rejects when the feed cannot carry what there is; the statuses then say so, and the last feed goes on.
   */
  reconcile(): Promise<void>
  /** What the feed carries, in the order of the names. */
  inForce(): readonly RateLimitDomain[]
}

/** What is the same for all resources in one run. */
interface Surroundings {
  readonly replicas: readonly Replica[]
  readonly uids: readonly string[]
  /** Why the feed did not take what should be in force. */
  readonly unpublished: string | undefined
}

const workload = 'ratelimit'

/**
 * Makes the feed carry every RateLimitConfig that there is, and tells how far each one got. Gather,
 * translate, choose, publish, remember, write status: each step looks at all resources, for they share the
 * domains and the feed.
 */
export function createRateLimitConfigs(options: RateLimitConfigsOptions): RateLimitConfigs {
  const { source, remembered, feed, infrastructure, clock } = options
  const translations = new Map<string, { readonly resource: SourcedResource; readonly made: Translation }>()
  let statuses: ReadonlyMap<string, ResourceStatus> = new Map()
  let inForce: readonly RateLimitDomain[] = []

  /** Most resources are the same as last time. */
  function translate(resource: SourcedResource): Translation {
    const known = translations.get(resource.uid)
    if (known?.resource === resource) return known.made
    const made = translateResource(resource)
    translations.set(resource.uid, { resource, made })
    return made
  }

  function gatherAll(): readonly Gathered[] {
    const resources = source.list()
    const uids = new Set(resources.map(({ uid }) => uid))
    for (const uid of translations.keys()) if (!uids.has(uid)) translations.delete(uid)
    const unread = source.unread()
    return gather({ resources, unread, memories: remembered.all(), nowMs: clock.nowMs() }, translate)
  }

  /** Answers why the feed did not take it. */
  function publish(domains: readonly RateLimitDomain[]): Error | undefined {
    try {
      feed.publish(domains)
      inForce = domains
      return undefined
    } catch (error) {
      return error as Error
    }
  }

  /** What was not published was never good. */
  function remember(all: readonly Chosen[], published: boolean): void {
    const memories = all.map(({ resource, memory, translation, content }): [string, Memory] => {
      const lastGood = (published ? content : undefined) ?? memory.lastGood
      const isPresent = 'value' in translation && translation.value === lastGood
      const lastGoodGeneration = isPresent ? resource.generation : memory.lastGoodGeneration
      const { firstSeenMs } = memory
      const { origin, uid } = resource
      const good = lastGood && { lastGood, ...(lastGoodGeneration && { lastGoodGeneration }) }
      return [uid, { firstSeenMs, origin, ...good }]
    })
    remembered.replace(new Map(memories))
  }

  function statusOf(item: Chosen, surroundings: Surroundings): ResourceStatus {
    const { resource, content } = item
    const facts = factsOf(item, feed, surroundings)
    const old = options.storedConditions?.(resource) ?? statuses.get(resource.uid)?.conditions ?? []
    return {
      kind: resource.kind,
      namespace: resource.namespace,
      name: resource.name,
      uid: resource.uid,
      origin: resource.origin,
      observedGeneration: resource.generation,
      domain: facts.domain,
      rules: content ? countLimits(content.descriptors) : 0,
      enforced: `${facts.enforcing}/${facts.running}`,
      problems: facts.problems,
      conditions: withTransitionTimes(old, deriveConditions(facts), resource.generation, clock.nowMs()),
    }
  }

  return {
    inForce: () => inForce,
    async reconcile() {
      const all = chooseContents(gatherAll(), options.reservations)
      const failure = publish(all.flatMap(({ content }) => content ?? []))
      const replicas = infrastructure.observe(workload)
      const uids = replicas.map(({ uid }) => uid)
      const surroundings = { replicas, uids, unpublished: failure?.message }
      statuses = new Map(all.map(item => [item.resource.uid, statusOf(item, surroundings)]))
      try {
        options.writeStatus([...statuses.values()])
      } finally {
        // Each is kept for itself: of one that cannot be written the other does not know.
        remember(all, failure === undefined)
      }
      if (failure !== undefined) throw failure
    },
  }
}

const nobody = { acknowledged: new Set<string>(), refusals: [] }

function factsOf(item: Chosen, feed: RateLimitFeed, { replicas, uids, unpublished }: Surroundings): Facts {
  const { translation, grant, content } = item
  const present = 'value' in translation ? translation.value : undefined
  const taking = replicas.filter(({ ready }) => ready)
  const { acknowledged, refusals } =
    content === undefined || unpublished !== undefined ? nobody : feed.enforcement(content, uids)
  return {
    problems: 'problems' in translation ? translation.problems : [],
    refusal: present ? grant.refusal : undefined,
    paused: item.resource.paused,
    inForce: content === undefined ? 'nothing' : content === present ? 'present' : 'last-good',
    unpublished,
    domain: present?.domain ?? content?.domain ?? domainOf(item.resource.spec),
    running: taking.length,
    enforcing: taking.filter(({ uid }) => acknowledged.has(uid)).length,
    refusals: content === present ? refusals : [],
  }
}

/** For the status of a resource that was never right. */
function domainOf(spec: unknown): string {
  const domain = (spec as { domain?: unknown } | null)?.domain
  return typeof domain === 'string' ? domain.slice(0, 253) : ''
}
