import { oncePerObject } from '@tollway/chassis/once-per-object.ts'
import { rateLimitConfigKind as definition } from '@tollway/crds/rate-limit-config.ts'
import { encodeDomain, showDomain } from '@tollway/ratelimit/feeds/domain-codec.ts'
import {
  featuresOf,
  type RateLimitDomain,
  rateLimitTypeUrl,
} from '@tollway/ratelimit/rules/rate-limit-domain.ts'
import { createResource, type Resource } from '../../xds/snapshot.ts'
import type { FeedKind } from '../feed-kind.ts'
import type { KindAdapter, KindColumns } from '../kind-adapter.ts'
import { openDomainClaims, type Reservations } from './claim-domains.ts'
import { isRateLimitDomain } from './is-rate-limit-domain.ts'
import { countLimits, translateRateLimitConfig } from './translate-rate-limit-config.ts'

export const rateLimitConfigColumns: KindColumns = {
  subject: 'DOMAIN',
  counts: [{ field: 'rules', heading: 'RULES', isLoad: false }],
}

/** @param reservations domains that only some namespaces may have. */
export function rateLimitConfigs(reservations?: Reservations): KindAdapter<RateLimitDomain, RateLimitDomain> {
  return {
    definition,
    workload: 'ratelimit',
    typeUrl: rateLimitTypeUrl,
    ...rateLimitConfigColumns,
    translate: translateRateLimitConfig,
    isContent: isRateLimitDomain,
    subjectOf: (content, spec) => content?.domain ?? domainOf(spec),
    openClaims: () => openDomainClaims(reservations),
    complete: domain => ({ fed: domain }),
    encode: encodeRateLimitDomain,
    show: showDomain,
    countsOf: domain => (domain ? countsOf(domain) : noRules),
  }
}

export const rateLimitConfig: FeedKind<RateLimitDomain, RateLimitDomain> = {
  definition,
  isContent: isRateLimitDomain,
  columns: rateLimitConfigColumns,
  open: ({ domainGrants }) => rateLimitConfigs(domainGrants),
}

/** Encodes a domain for the feed. */
export function encodeRateLimitDomain(content: RateLimitDomain): Resource {
  return createResource(content.name, encodeDomain(content), featuresOf(content))
}

const noRules = { rules: 0 }
/** A large domain has tens of thousands of rules. */
const countsOf = oncePerObject((domain: RateLimitDomain) => ({ rules: countLimits(domain.descriptors) }))

const maxShownCharacters = 253

function domainOf(spec: unknown): string {
  const domain = (spec as { domain?: unknown } | null | undefined)?.domain
  return typeof domain === 'string' ? domain.slice(0, maxShownCharacters) : ''
}
