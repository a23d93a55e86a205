import type {
  Descriptor,
  LimitOfList,
  RateLimit,
  RateLimitConfigSpec,
} from '@tollway/crds/rate-limit-config.ts'
import { validateRateLimitConfig } from '@tollway/crds/validation/validate-rate-limit-config.ts'
import { givenFields, memberFields, toRuleFlags } from '@tollway/ratelimit/rules/fields.ts'
import type { RateLimitDomain, RateLimitPolicy, RateLimitRule } from '@tollway/ratelimit/rules/model.ts'
import { validateDomains } from '@tollway/ratelimit/rules/validate.ts'
import type { ResourceProblem, Translation } from '../kind-adapter.ts'

/**
 * Translates a RateLimitConfig to the content of the feed. The schema is validated as by an API server, then
 * the rules by the code of the service, so that no pod rejects accepted content.
 */
export function translateRateLimitConfig(name: string, resource: unknown): Translation<RateLimitDomain> {
  const checked = validateRateLimitConfig(resource)
  if ('problems' in checked) return { problems: checked.problems }
  const value = toDomain(name, checked.value)
  const { problems, warnings } = validateDomains([value], { mergeDomainConfigs: false, spelling: 'camel' })
  const inSpec = problems.map(({ path, message, allowed }) => ({
    path: path === '' ? 'spec' : `spec.${path}`,
    message: allowed === undefined ? message : `${message}; allowed: ${allowed}`,
  }))
  if (inSpec.length > 0) return { problems: inSpec }
  const doubts = [...warnings, ...findUnevenCounting(value.descriptors, '')]
  return { value, warnings: doubts.map(({ path, message }) => ({ path: `spec.${path}`, message })) }
}

/**
 * Warns of limits that lose costs which others on the same descriptor count. Whether costs are reported after
 * their requests is only known to the callers, so the author of a list has thought of it if one of its limits
 * counts them.
 */
function findUnevenCounting(rules: readonly RateLimitRule[], parent: string): readonly ResourceProblem[] {
  return rules.flatMap(({ limits = [], descriptors }, index) => {
    const path = `${parent}descriptors[${index}]`
    const counting = limits.findIndex(({ countRejected }) => countRejected)
    const message =
      `is left out, although limits[${counting}] counts rejected requests: a cost that is reported after its request ` +
      'is lost here if it exceeds what is left; set true or false'
    const losing = limits.flatMap(({ countRejected }, place) =>
      counting >= 0 && countRejected === undefined
        ? [{ path: `${path}.limits[${place}].countRejected`, message }]
        : [],
    )
    return [...losing, ...findUnevenCounting(descriptors, `${path}.`)]
  })
}

/** Returns the number of limits of these rules and of those below them. */
export function countLimits(rules: readonly RateLimitRule[]): number {
  let count = 0
  for (const { rateLimit, limits = [], descriptors } of rules) {
    count += (rateLimit ? 1 : 0) + limits.length + countLimits(descriptors)
  }
  return count
}

function toDomain(name: string, spec: RateLimitConfigSpec): RateLimitDomain {
  const { domain, descriptors, allOrNothing } = spec
  return { name, domain, descriptors: descriptors.map(toRule), ...(allOrNothing && { allOrNothing }) }
}

function toRule(descriptor: Descriptor): RateLimitRule {
  const { rateLimit, limits, metadata } = descriptor
  return {
    key: descriptor.key,
    value: descriptor.value ?? '',
    ...toRuleFlags(name => descriptor[name] ?? false),
    ...(rateLimit && { rateLimit: toPolicy(rateLimit) }),
    ...(limits && { limits: limits.map(toPolicy) }),
    ...(metadata && { metadata }),
    descriptors: (descriptor.descriptors ?? []).map(toRule),
  }
}

/** Fields that are left out keep their absence, so that equal rules of older versions have equal bytes. */
function toPolicy(limit: RateLimit & Partial<LimitOfList>): RateLimitPolicy {
  return {
    unit: limit.unit ?? '',
    requestsPerUnit: limit.requestsPerUnit,
    unlimited: limit.unlimited ?? false,
    name: limit.name ?? '',
    replaces: (limit.replaces ?? []).map(replaced => replaced.name),
    ...givenFields(memberFields, limit),
  }
}
