import type { CelRule, Rule, Schema } from './schema.ts'

/** A rule between fields, in CEL for the API server and for validation in this process. */
export interface FieldRule {
  readonly cel: CelRule
  readonly judge: Rule
}

/** A rule that the admission policy has for nested descriptors. */
export interface PolicyRule extends FieldRule {
  /**
   * The same rule as CEL expressions that must all be true. `self` may be an optional value, and `a <= b`
   * means "a implies b". The policy evaluates them in a loop over thousands of descriptors, in which the cost
   * accounting of an API server becomes slow with `||`, `&&` and `? :`. A definition cannot have this form,
   * because the estimated cost of optional values is unlimited.
   */
  readonly inPolicy: readonly string[]
  /**
   * A condition in CEL without which the rule cannot be violated. The policy evaluates it once for all rules
   * that have it, and their expressions only if it is true.
   */
  readonly policyGuard?: string
}

export function withRules(
  rules: readonly FieldRule[],
): Required<Pick<Schema, 'rules' | 'x-kubernetes-validations'>> {
  return {
    rules: rules.map(({ judge }) => judge),
    'x-kubernetes-validations': rules.map(({ cel }) => cel),
  }
}
