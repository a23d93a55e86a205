import type { RateLimitDomain } from '@tollway/ratelimit/rules/rate-limit-domain.ts'
import { type Claims, type Keeper, keptDenial } from '../claims.ts'

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
