import { compile, limitsOf } from '@tollway/ratelimit/rules/compile.ts'
import type { RateLimitDomain } from '@tollway/ratelimit/rules/rate-limit-domain.ts'

/** Consoles ask each second, and a content never changes. */
const known = new WeakMap<RateLimitDomain, readonly string[]>()

/**
 * Returns the names of the rules of a domain that count hits, sorted; each limit of a rule with several has a
 * name. Pods report their hits by these names.
 */
export function countedRules(content: RateLimitDomain): readonly string[] {
  const found = known.get(content)
  if (found !== undefined) return found
  const rules = compile([content], { mergeDomainConfigs: false, attach: () => undefined })
  const counted = [...limitsOf(rules)].filter(({ unlimited }) => !unlimited)
  const names = [...new Set(counted.map(({ fullKey }) => fullKey))].sort()
  known.set(content, names)
  return names
}
