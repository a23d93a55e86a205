import { isObject } from '@tollway/chassis/is-object.ts'
import { oncePerObject } from '@tollway/chassis/once-per-object.ts'
import { rateLimitConfigKind as definition } from '@tollway/crds/rate-limit-config.ts'
import { encodeDomain, showDomain } from '@tollway/ratelimit/config/domain-codec.ts'
import {
  checkFields,
  hasRuleFlags,
  isConcurrency,
  matchFields,
  memberFields,
} from '@tollway/ratelimit/rules/fields.ts'
import {
  findFeatures,
  isRequestsPerUnit,
  type RateLimitDomain,
  type RateLimitPolicy,
  type RateLimitRule,
  rateLimitTypeUrl,
} from '@tollway/ratelimit/rules/model.ts'
import { parseUnit } from '@tollway/ratelimit/rules/units.ts'
import { createResource, type Resource } from '../../xds/snapshot.ts'
import { type Claims, denyReserved, type ReservedClaim } from '../claims.ts'
import type { FeedKind, KindAdapter, KindColumns, KindContext } from '../kind-adapter.ts'
import { largestLease } from './describe-limit.ts'
import { countLimits, translateRateLimitConfig } from './translate-rate-limit-config.ts'

export const rateLimitConfigColumns: KindColumns = {
  subject: 'DOMAIN',
  counts: [{ field: 'rules', heading: 'RULES', isLoad: false }],
}

/** @param reservations the domains that only some namespaces may use */
export function rateLimitConfigs(
  reservations?: DomainGrants,
  sharing?: KindContext['sharing'],
): KindAdapter<RateLimitDomain, RateLimitDomain> {
  return {
    definition,
    workload: 'ratelimit',
    typeUrl: rateLimitTypeUrl,
    ...rateLimitConfigColumns,
    translate: translateRateLimitConfig,
    isContent: isRateLimitDomain,
    readSubject: (content, spec) => content?.domain ?? readDomain(spec),
    openClaims: () => openDomainClaims(reservations),
    complete: domain => ({ published: domain }),
    encode: encodeRateLimitDomain,
    show: showDomain,
    count: domain => (domain ? countRules(domain) : noRules),
    ...(sharing && {
      dependencies: [sharing],
      findSharing: domain => (isShared(domain) ? sharing.of(domain.domain) : undefined),
    }),
  }
}

export const rateLimitConfig: FeedKind<RateLimitDomain, RateLimitDomain> = {
  definition,
  isContent: isRateLimitDomain,
  columns: rateLimitConfigColumns,
  open: ({ domainGrants, sharing }) => rateLimitConfigs(domainGrants, sharing),
}

export function encodeRateLimitDomain(content: RateLimitDomain): Resource {
  return createResource(content.name, encodeDomain(content), findFeatures(content))
}

const noRules = { rules: 0 }
/** Cached, because a large domain has tens of thousands of rules. */
const countRules = oncePerObject((domain: RateLimitDomain) => ({ rules: countLimits(domain.descriptors) }))

/** How the limits of a domain are shared. Cached, because it is asked for every few seconds. */
const readSharing = oncePerObject(({ domain, descriptors }: RateLimitDomain) => {
  let hasQuota = false
  let largest = 0
  for (const limits of listLimits(descriptors)) {
    hasQuota ||= limits.some(({ delivery }) => delivery === 'Quota')
    largest = Math.max(largest, largestLease(limits))
  }
  return { domain, hasQuota, largestLease: largest }
})

function isShared(domain: RateLimitDomain): boolean {
  const { hasQuota, largestLease } = readSharing(domain)
  return hasQuota || largestLease > 0
}

/** Lists the domains of which a rule is shared, as `SharingStates` reads them. */
export function listShared(domains: readonly RateLimitDomain[]) {
  return domains.filter(isShared).map(readSharing)
}

/** Lists the limits of each rule. */
function* listLimits(rules: readonly RateLimitRule[]): Generator<readonly RateLimitPolicy[]> {
  for (const { rateLimit, limits = rateLimit ? [rateLimit] : [], descriptors } of rules) {
    yield limits
    yield* listLimits(descriptors)
  }
}

const maxShownCharacters = 253

function readDomain(spec: unknown): string {
  const domain = (spec as { domain?: unknown } | null | undefined)?.domain
  return typeof domain === 'string' ? domain.slice(0, maxShownCharacters) : ''
}

/** For some domains, the namespaces that may use them. Every namespace may use all other domains. */
export type DomainGrants = ReadonlyMap<string, readonly string[]>

/** Gives a domain to the oldest resource that names it, of those whose namespace may use it. */
export function openDomainClaims(
  reservations: DomainGrants = new Map(),
): Claims<Pick<RateLimitDomain, 'domain'>> {
  const owners = new Map<string, string>()
  const keepers = new Map<string, ReservedClaim>()
  const path = 'spec.domain'
  return {
    findDenial({ domain }, { namespace }) {
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
        return isFree ? undefined : denyReserved(path, `"${domain}"`, keeper)
      }
      const message = `"${domain}" belongs to ${owner}, which is older; name another`
      return { reason: 'DomainConflict', path, message, owner }
    },
    grant({ domain }, { name }) {
      owners.set(domain, name)
    },
    reserve({ domain }, claimant, until) {
      keepers.set(domain, { ...claimant, until })
    },
    toKey: ({ domain }) => domain,
  }
}

/** Returns whether a stored value is a valid domain of this version. Another version may have written it. */
function isRateLimitDomain(value: unknown): value is RateLimitDomain {
  if (!isObject<RateLimitDomain>(value)) return false
  const { name, domain, descriptors, allOrNothing } = value
  if (allOrNothing !== undefined && typeof allOrNothing !== 'boolean') return false
  return typeof name === 'string' && typeof domain === 'string' && isList(descriptors, isRule)
}

function isRule(value: unknown): value is RateLimitRule {
  if (!isObject<RateLimitRule>(value)) return false
  const { key, value: wanted, rateLimit, limits, metadata, descriptors } = value
  if (typeof key !== 'string' || typeof wanted !== 'string') return false
  if (!hasRuleFlags(value) || checkFields(matchFields, value).length > 0) return false
  if (metadata !== undefined && !isObject(metadata)) return false
  if (limits !== undefined && !isList(limits, isPolicy)) return false
  return (rateLimit === undefined || isPolicy(rateLimit)) && isList(descriptors, isRule)
}

function isPolicy(value: unknown): value is RateLimitPolicy {
  if (!isObject<RateLimitPolicy>(value)) return false
  const { unit, requestsPerUnit, unlimited, name, replaces } = value
  if (typeof unlimited !== 'boolean' || typeof name !== 'string') return false
  if (checkFields(memberFields, value).length > 0) return false
  const isLimit = parseUnit(`${unit}`) !== undefined && isRequestsPerUnit(requestsPerUnit)
  return (
    (isLimit || unlimited || isConcurrency(value)) &&
    isList(replaces, replaced => typeof replaced === 'string')
  )
}

function isList(value: unknown, isItem: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(isItem)
}
