import { toRuleFlags } from '../fields.ts'
import type { RateLimitPolicy, RateLimitRule } from '../model.ts'

/** Only for tests: a rule for any value of the key, with these fields. */
export function makeRule(key: string, more: Partial<RateLimitRule>): RateLimitRule {
  return {
    key,
    value: '',
    ...toRuleFlags(() => false),
    descriptors: [],
    ...more,
  }
}

/** Only for tests: a limit with these fields. */
export function makeLimit(
  requestsPerUnit: number,
  unit: string,
  more: Partial<RateLimitPolicy> = {},
): RateLimitPolicy {
  return { unit, requestsPerUnit, unlimited: false, name: '', replaces: [], ...more }
}
