import {
  finalKeyOf,
  type RateLimitDomain,
  type RateLimitPolicy,
  type RateLimitRule,
} from '@tollway/ratelimit/rules/rate-limit-domain.ts'

/** A rule whose limit differs. A side is undefined where there is no such rule. */
export interface RuleDifference {
  /** `checkout.user`, as in listings. */
  readonly rule: string
  /** `3/minute`. */
  readonly before?: string
  readonly after?: string
}

/** Returns the rules that are new, gone or have another limit, in the order of their names. */
export function ruleDifferences(
  before: readonly RateLimitDomain[],
  after: readonly RateLimitDomain[],
): readonly RuleDifference[] {
  const [left, right] = [limitsByRule(before), limitsByRule(after)]
  const names = [...new Set([...left.keys(), ...right.keys()])].sort()
  return names.flatMap(rule => {
    const [old, now] = [left.get(rule), right.get(rule)]
    if (old === now) return []
    return [{ rule, ...(old !== undefined && { before: old }), ...(now !== undefined && { after: now }) }]
  })
}

function limitsByRule(domains: readonly RateLimitDomain[]): ReadonlyMap<string, string> {
  const limits = new Map<string, string>()
  const visit = (parent: string, rules: readonly RateLimitRule[]) => {
    for (const rule of rules) {
      const name = `${parent}.${finalKeyOf(rule)}`
      limits.set(name, describeRule(rule))
      visit(name, rule.descriptors)
    }
  }
  for (const { domain, descriptors } of domains) visit(domain, descriptors)
  return limits
}

function describeRule(rule: RateLimitRule): string {
  const { rateLimit, limits = rateLimit === undefined ? [] : [rateLimit] } = rule
  const shown = limits.length === 0 ? 'no limit' : limits.map(describePolicy).join(' and ')
  const modes = flags.filter(name => rule[name]).map(name => `, ${name}`)
  return `${shown}${modes.join('')}`
}

const flags = ['shadowMode', 'quotaMode', 'shareThreshold', 'detailedMetric', 'valueToMetric'] as const

function describePolicy({
  unit,
  requestsPerUnit = 0,
  unlimited,
  unitMultiplier,
  ...rest
}: RateLimitPolicy): string {
  const units = `${unitMultiplier === undefined ? '' : `${unitMultiplier} `}${unit.toLowerCase()}`
  const limit = unlimited ? 'unlimited' : `${requestsPerUnit}/${units}`
  const others = Object.entries(rest).flatMap(([name, value]) => {
    const isGiven = value !== undefined && value !== '' && !(Array.isArray(value) && value.length === 0)
    return isGiven ? [` ${name}=${typeof value === 'object' ? JSON.stringify(value) : value}`] : []
  })
  return `${limit}${others.join('')}`
}
