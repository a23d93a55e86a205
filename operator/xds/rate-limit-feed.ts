import type { RateLimitDomain } from '../ir.ts'
import type { Enforcement } from './acknowledgements.ts'
import { encodeRateLimitDomain, rateLimitTypeUrl } from './encode-rate-limit-domain.ts'
import type { Feed } from './server.ts'
import { createSnapshot, type Resource } from './snapshot.ts'

/** The feed in terms of rate limit domains. The same object is not encoded twice. */
export function createRateLimitFeed(feed: Feed) {
  const encoded = new WeakMap<RateLimitDomain, Resource>()

  function encode(domain: RateLimitDomain): Resource {
    const known = encoded.get(domain)
    if (known) return known
    const resource = encodeRateLimitDomain(domain)
    encoded.set(domain, resource)
    return resource
  }

  return {
    /** Every domain that shall be in force; all others end. Throws as `Feed.publish` does. */
    publish(domains: readonly RateLimitDomain[]): void {
      feed.publish(createSnapshot(rateLimitTypeUrl, domains.map(encode)))
    },
    /** Which of these clients enforce the domain with exactly this content, and which refused it. */
    enforcement: (domain: RateLimitDomain, uids: readonly string[]): Enforcement =>
      feed.enforcement(rateLimitTypeUrl, encode(domain), uids),
  }
}
