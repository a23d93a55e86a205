import { oncePerObject } from '@tollway/chassis/once-per-object.ts'
import { rateLimitConfigKind as definition } from '@tollway/crds/rate-limit-config.ts'
import { encodeDomain, showDomain } from '@tollway/ratelimit/config/domain-codec.ts'
import { featuresOf, type RateLimitDomain, rateLimitTypeUrl } from '@tollway/ratelimit/rules/model.ts'
import { createResource, type Resource } from '../../xds/snapshot.ts'
import { type Claims, type Keeper, keptDenial } from '../claims.ts'
import type { FeedKind } from '../feed-kind.ts'
import type { KindAdapter, KindColumns } from '../kind-adapter.ts'
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

/** The namespaces that may use a domain, by the domain; every namespace may use other domains. */
export type Reservations = ReadonlyMap<string, readonly string[]>

/** A domain belongs to the oldest resource that names it and may have it. */
export function openDomainClaims(
  reservations: Reservations = new Map(),
): Claims<Pick<RateLimitDomain, 'domain'>> {
  const owners = new Map<string, string>()
  const keepers = new Map<string, Keeper>()
  const path = 'spec.domain'
  return {
    denialOf({ domain }, { namespace }) {
      const namespaces = reservations.get(domain)
      if (namespaces !== undefined && !namespaces.includes(namespace)) {
        const whose = `kept for the namespaces ${namespaces.join(', ')}`
        const message = `"${domain}" is ${whose}; name another, or ask who runs the operator`
        return { reason: 'DomainNotGranted', path, message }
      }
      const owner = owners.get(domain)
      if (owner === undefined) {
        const keeper = keepers.get(domain)
        const isFree = keeper === undefined || keeper.namespace === namespace
        return isFree ? undefined : keptDenial(path, `"${domain}"`, keeper)
      }
      const message = `"${domain}" belongs to ${owner}, which is older; name another`
      return { reason: 'DomainConflict', path, message, owner }
    },
    grant({ domain }, { name }) {
      owners.set(domain, name)
    },
    keep({ domain }, claimant, until) {
      keepers.set(domain, { ...claimant, until })
    },
    keyOf: ({ domain }) => domain,
  }
}
