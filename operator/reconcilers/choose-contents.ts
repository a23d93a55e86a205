import type { RateLimitDomain } from '../ir.ts'
import type { SourcedResource } from '../sources/source.ts'
import { type Translation, translateRateLimitConfig } from '../translate/translate-rate-limit-config.ts'
import { claimDomains, type Grant, type Reservations } from './claim-domains.ts'
import type { Memory } from './remembered.ts'

/** A RateLimitConfig, what it says, and what is remembered of it. */
export interface Gathered {
  readonly resource: SourcedResource
  readonly memory: Memory
  readonly translation: Translation
}

export interface Chosen extends Gathered {
  readonly grant: Grant
  /** What shall be in force of it: its present content, the last good one, or nothing. */
  readonly content: RateLimitDomain | undefined
}

/** `namespace/name`: a resource's name in messages and in the feed. */
export function nameOf({ namespace, name }: Pick<SourcedResource, 'namespace' | 'name'>): string {
  return `${namespace}/${name}`
}

export function translateResource(resource: SourcedResource): Translation {
  const { apiVersion, kind, namespace, name, spec } = resource
  return translateRateLimitConfig(nameOf(resource), {
    apiVersion,
    kind,
    metadata: { name, namespace },
    spec,
  })
}

/** What shall be in force of each resource, looked at together: a domain belongs to one of them. */
export function chooseContents(
  gathered: readonly Gathered[],
  reservations?: Reservations,
): readonly Chosen[] {
  const grants = claimDomains(
    gathered.map(item => ({
      uid: item.resource.uid,
      name: nameOf(item.resource),
      namespace: item.resource.namespace,
      firstSeenMs: item.memory.firstSeenMs,
      domains: candidates(item).map(({ domain }) => domain),
    })),
    reservations,
  )
  return gathered.map(item => {
    const grant = grants.get(item.resource.uid) ?? { domain: undefined, refusal: undefined }
    const content = candidates(item).find(({ domain }) => domain === grant.domain)
    return { ...item, grant, content }
  })
}

/** What of a resource could be in force: its present content if it is right, then the last that was. */
function candidates({ translation, memory }: Gathered): readonly RateLimitDomain[] {
  const present = 'value' in translation ? [translation.value] : []
  return memory.lastGood === undefined ? present : [...present, memory.lastGood]
}
