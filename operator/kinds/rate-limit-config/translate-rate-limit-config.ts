import type { Descriptor, RateLimitConfigSpec } from '@tollway/crds/rate-limit-config.ts'
import { validateRateLimitConfig } from '@tollway/crds/validation/validate-rate-limit-config.ts'
import type { RateLimitDomain, RateLimitPolicy, RateLimitRule } from '@tollway/ratelimit/rules/config.ts'
import { validate } from '@tollway/ratelimit/rules/validate.ts'
import type { Translation } from '../translation.ts'

/**
 * Translates a RateLimitConfig to the content of the feed. The schema is validated as by an API server, then
 * the rules by the code of the service, so that no pod rejects accepted content.
 */
export function translateRateLimitConfig(name: string, resource: unknown): Translation<RateLimitDomain> {
  const checked = validateRateLimitConfig(resource)
  if ('problems' in checked) return { problems: checked.problems }
  const value = toDomain(name, checked.value)
  const { problems, warnings } = validate([value], { mergeDomainConfigs: false, spelling: 'camel' })
  const inSpec = problems.map(({ path, message, allowed }) => ({
    path: path === '' ? 'spec' : `spec.${path}`,
    message: allowed === undefined ? message : `${message}; allowed: ${allowed}`,
  }))
  if (inSpec.length > 0) return { problems: inSpec }
  return { value, warnings: warnings.map(({ path, message }) => ({ path: `spec.${path}`, message })) }
}

/** How many of these rules, and of those below them, carry a limit. */
export function countLimits(rules: readonly RateLimitRule[]): number {
  let count = 0
  for (const rule of rules) count += (rule.rateLimit ? 1 : 0) + countLimits(rule.descriptors)
  return count
}

function toDomain(name: string, spec: RateLimitConfigSpec): RateLimitDomain {
  return { name, domain: spec.domain, descriptors: (spec.descriptors ?? []).map(toRule) }
}

function toRule(descriptor: Descriptor): RateLimitRule {
  const { rateLimit, metadata } = descriptor
  return {
    key: descriptor.key,
    value: descriptor.value ?? '',
    shadowMode: descriptor.shadowMode ?? false,
    detailedMetric: descriptor.detailedMetric ?? false,
    quotaMode: descriptor.quotaMode ?? false,
    valueToMetric: descriptor.valueToMetric ?? false,
    shareThreshold: descriptor.shareThreshold ?? false,
    ...(rateLimit && { rateLimit: toPolicy(rateLimit) }),
    ...(metadata && { metadata }),
    descriptors: (descriptor.descriptors ?? []).map(toRule),
  }
}

function toPolicy(limit: NonNullable<Descriptor['rateLimit']>): RateLimitPolicy {
  return {
    unit: limit.unit ?? '',
    requestsPerUnit: limit.requestsPerUnit,
    unlimited: limit.unlimited ?? false,
    name: limit.name ?? '',
    replaces: (limit.replaces ?? []).map(replaced => replaced.name),
    ...(limit.unitMultiplier !== undefined && { unitMultiplier: limit.unitMultiplier }),
    ...(limit.calendar && { calendar: limit.calendar }),
  }
}
