import type { Clock } from '@tollway/chassis/clock.ts'
import { withTransitionTimes } from '../controller/conditions.ts'
import type { Infrastructure } from '../infrastructure/provider.ts'
import type { RateLimitDomain } from '../ir.ts'
import type { Source, SourcedResource } from '../sources/source.ts'
import {
  countLimits,
  type FieldProblem,
  type Translation,
  translateRateLimitConfig,
} from '../translate/translate-rate-limit-config.ts'
import { claimDomains, type Grant } from './claim-domains.ts'
import type { Memory, Remembered } from './remembered.ts'
import { deriveConditions, type Facts, type ResourceStatus } from './resource-status.ts'

/** The feed, as this reconciler sees it. */
export interface RateLimitFeed {
  /** Every domain that shall be in force; those that are not among them end. */
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
  /** The one place where status is written. */
  writeStatus(statuses: readonly ResourceStatus[]): void
}

export interface RateLimitConfigs {
  reconcile(): Promise<void>
  /** What the feed carries, in the order of the names. */
  inForce(): readonly RateLimitDomain[]
}

/** A resource on its way: each step adds what it found. */
interface Gathered {
  readonly resource: SourcedResource
  readonly memory: Memory
  readonly translation: Translation
}

interface InForce extends Gathered {
  readonly grant: Grant
  /** What the feed carries of it. */
  readonly content: RateLimitDomain | undefined
}

const workload = 'ratelimit'

/**
 * Makes the feed carry every RateLimitConfig that there is, and tells how far each one got. Gather,
 * translate, claim domains, publish, remember, write status: each step looks at all resources, for they share
 * the domains and the feed.
 */
export function createRateLimitConfigs(options: RateLimitConfigsOptions): RateLimitConfigs {
  const { source, remembered, feed, clock } = options
  const translations = new Map<string, { readonly resource: SourcedResource; readonly made: Translation }>()
  let statuses: ReadonlyMap<string, ResourceStatus> = new Map()
  let inForce: readonly RateLimitDomain[] = []

  /** Most resources are the same as last time. */
  function translate(resource: SourcedResource): Translation {
    const known = translations.get(resource.uid)
    if (known?.resource === resource) return known.made
    const { apiVersion, kind, namespace, name, spec } = resource
    const made = translateRateLimitConfig(`${namespace}/${name}`, {
      apiVersion,
      kind,
      metadata: { name, namespace },
      spec,
    })
    translations.set(resource.uid, { resource, made })
    return made
  }

  function gather(): Gathered[] {
    const resources = source.list().filter(({ kind }) => kind === 'RateLimitConfig')
    const uids = new Set(resources.map(({ uid }) => uid))
    for (const uid of translations.keys()) if (!uids.has(uid)) translations.delete(uid)
    return resources
      .toSorted((a, b) => (`${a.namespace}/${a.name}` < `${b.namespace}/${b.name}` ? -1 : 1))
      .map(resource => ({
        resource,
        memory: remembered.get(resource.uid) ?? { firstSeenMs: clock.nowMs() },
        translation: translate(resource),
      }))
  }

  function remember(all: readonly InForce[]): void {
    const memories = all.map(({ resource, memory, content }): [string, Memory] => {
      const lastGood = content ?? memory.lastGood
      return [resource.uid, { firstSeenMs: memory.firstSeenMs, ...(lastGood && { lastGood }) }]
    })
    remembered.replace(new Map(memories))
  }

  function statusOf(item: InForce): ResourceStatus {
    const { resource, content } = item
    const facts = factsOf(item, options)
    const old = statuses.get(resource.uid)?.conditions ?? []
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
      const all = claim(gather())
      inForce = all.flatMap(({ content }) => content ?? [])
      feed.publish(inForce)
      remember(all)
      statuses = new Map(all.map(item => [item.resource.uid, statusOf(item)]))
      options.writeStatus([...statuses.values()])
    },
  }
}

function claim(gathered: readonly Gathered[]): InForce[] {
  const grants = claimDomains(
    gathered.map(({ resource, memory, translation }) => ({
      uid: resource.uid,
      name: `${resource.namespace}/${resource.name}`,
      firstSeenMs: memory.firstSeenMs,
      domains: candidates(translation, memory).map(({ domain }) => domain),
    })),
  )
  return gathered.map(item => {
    const grant = grants.get(item.resource.uid) ?? { domain: undefined, owner: undefined }
    const content = candidates(item.translation, item.memory).find(({ domain }) => domain === grant.domain)
    return { ...item, grant, content }
  })
}

/** What of a resource could be in force: its present content if it is right, then the last that was. */
function candidates(translation: Translation, memory: Memory): readonly RateLimitDomain[] {
  const present = 'value' in translation ? [translation.value] : []
  return memory.lastGood === undefined ? present : [...present, memory.lastGood]
}

function factsOf(item: InForce, { infrastructure, feed }: RateLimitConfigsOptions): Facts {
  const { translation, grant, content } = item
  const present = 'value' in translation ? translation.value : undefined
  const replicas = infrastructure.observe(workload)
  const uids = replicas.map(({ uid }) => uid)
  const { acknowledged, refusals } = content
    ? feed.enforcement(content, uids)
    : { acknowledged: new Set<string>(), refusals: [] }
  const problems: readonly FieldProblem[] = 'problems' in translation ? translation.problems : []
  return {
    problems,
    domainOwner: present ? grant.owner : undefined,
    inForce: content === undefined ? 'nothing' : content === present ? 'present' : 'last-good',
    domain: present?.domain ?? content?.domain ?? domainOf(item.resource.spec),
    running: replicas.length,
    enforcing: replicas.filter(({ uid, ready }) => ready && acknowledged.has(uid)).length,
    refusals: content === present ? refusals : [],
  }
}

/** For the status of a resource that was never right. */
function domainOf(spec: unknown): string {
  const domain = (spec as { domain?: unknown } | null)?.domain
  return typeof domain === 'string' ? domain.slice(0, 253) : ''
}
