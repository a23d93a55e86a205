import type {
  Descriptor,
  LimitOfList,
  RateLimit,
  RateLimitConfigSpec,
} from '@tollway/crds/rate-limit-config.ts'
import { validateRateLimitConfig } from '@tollway/crds/validate-rate-limit-config.ts'
import {
  givenFields,
  isConcurrency,
  matchFields,
  memberFields,
  toRuleFlags,
} from '@tollway/ratelimit/rules/fields.ts'
import type { RateLimitDomain, RateLimitPolicy, RateLimitRule } from '@tollway/ratelimit/rules/model.ts'
import { validateDomains } from '@tollway/ratelimit/rules/validate.ts'
import type { ResourceProblem, Translation } from '../kind-adapter.ts'

/**
 * Translates a RateLimitConfig to the content of the feed. Validates the schema as an API server does, and
 * then the rules with the code of the rate limit service, so that no pod rejects the content.
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
 * Warns about limits that lose costs which another limit of the same list counts. A caller may report a cost
 * after its request, and such a cost can exceed what is left. The warning appears only where one limit of a
 * list sets `countRejected` and another one leaves it out, because only callers know when they report costs.
 */
function findUnevenCounting(rules: readonly RateLimitRule[], parent: string): readonly ResourceProblem[] {
  return rules.flatMap(({ limits = [], descriptors }, index) => {
    const path = `${parent}descriptors[${index}]`
    const counting = limits.findIndex(({ countRejected }) => countRejected)
    const message =
      `is left out, although limits[${counting}] counts rejected requests: a cost that is reported after its request ` +
      'is lost here if it exceeds what is left; set true or false'
    const losing = limits.flatMap((limit, place) =>
      counting >= 0 && limit.countRejected === undefined && !isConcurrency(limit)
        ? [{ path: `${path}.limits[${place}].countRejected`, message }]
        : [],
    )
    return [...losing, ...findUnevenCounting(descriptors, `${path}.`)]
  })
}

/** Returns the number of limits of these rules and of all nested rules. */
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
    ...givenFields(matchFields, descriptor),
    ...toRuleFlags(name => descriptor[name] ?? false),
    ...(rateLimit && { rateLimit: toPolicy(rateLimit) }),
    ...(limits && { limits: limits.map(toPolicy) }),
    ...(metadata && { metadata }),
    descriptors: (descriptor.descriptors ?? []).map(toRule),
  }
}

/** Leaves unset fields out, so that rules of older versions keep their bytes. */
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
