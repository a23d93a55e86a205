import { orderEntries } from '@tollway/ratelimit/rules/bucket.ts'
import { compile } from '@tollway/ratelimit/rules/compile.ts'
import { type Explanation, explain } from '@tollway/ratelimit/rules/explain.ts'
import { type DescriptorEntry, match } from '@tollway/ratelimit/rules/match.ts'
import type { RateLimitDomain } from '@tollway/ratelimit/rules/model.ts'
import { findReplacedNames } from '@tollway/ratelimit/rules/replaces.ts'

interface ExplainedRequest {
  /** One explanation for each descriptor, in the order of the request. */
  readonly explanations: readonly Explanation[]
  /** Whether the limits count the request only if all of them admit it. */
  readonly isAtomic: boolean
}

const compileAll = (domains: readonly RateLimitDomain[]) =>
  compile(domains, { mergeDomainConfigs: false, attach: () => undefined })

/**
 * Returns the limit of a bucket of Envoy's filter rate_limit_quota, and why. Its entries are in the order of the rules, if
 * any order leads to a limit.
 */
export function explainBucket(
  domains: readonly RateLimitDomain[],
  domain: string,
  bucket: readonly DescriptorEntry[],
): Explanation {
  const rules = compileAll(domains)
  const explanation = explain(rules, domain, orderEntries(rules, domain, bucket) ?? bucket)
  const { limit } = explanation
  if (limit === undefined || limit.delivery === 'Quota') return explanation
  const { limit: _, baseKey: __, ...rest } = explanation
  return { ...rest, result: `no share: ${limit.fullKey} does not have delivery: Quota` }
}

/** Returns which rule of these domains each descriptor of a request matches, and why. Counts nothing. */
export function explainRequest(
  domains: readonly RateLimitDomain[],
  domain: string,
  descriptors: readonly (readonly DescriptorEntry[])[],
): ExplainedRequest {
  const rules = compileAll(domains)
  const replaced = findReplacedNames(descriptors.map(entries => match(rules, domain, entries)))
  return {
    explanations: descriptors.map(entries => withReplacement(explain(rules, domain, entries), replaced)),
    isAtomic: descriptors.length > 1 && domains.some(each => each.domain === domain && each.allOrNothing),
  }
}

/**
 * Removes the limits that another descriptor of the request replaces, because they do not count the request.
 */
function withReplacement(explanation: Explanation, replaced: ReadonlySet<string>): Explanation {
  const { limit, baseKey: _, ...rest } = explanation
  if (limit === undefined || limit.unlimited) return explanation
  const names = (limit.limits ?? [limit]).map(({ name }) => name)
  const gone = names.filter(name => replaced.has(name))
  if (gone.length === 0) return explanation
  const why = `(named ${gone.join(', ')}) is replaced by another descriptor's`
  if (gone.length === names.length) return { ...rest, result: `no limit: ${limit.fullKey} ${why}` }
  const left = limit.limits?.filter(({ name }) => !replaced.has(name)) ?? []
  return { ...explanation, limit: { ...limit, limits: left }, result: `${explanation.result}; ${why}` }
}
