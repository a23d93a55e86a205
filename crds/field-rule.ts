import type { CelRule, Rule, Schema } from './schema.ts'

/** A rule between fields, written twice: `cel` for the API server, `judge` for validation in this process. */
export interface FieldRule {
  readonly cel: CelRule
  readonly judge: Rule
}

/** A rule that also has a form for the admission policy, which checks nested descriptors. */
export interface PolicyRule extends FieldRule {
  /**
   * The rule as CEL expressions, all of which must be true. `self` may be an optional value, and `a <= b`
   * means "a implies b". The policy evaluates these expressions in a loop over thousands of descriptors;
   * there, the cost accounting of an API server makes `||`, `&&` and `? :` slow. A definition cannot have
   * this form, because an API server estimates the cost of optional values as unlimited.
   */
  readonly inPolicy: readonly string[]
  /**
   * A CEL condition: while it is false, the rule cannot be violated. The policy evaluates it once for all
   * rules with the same guard, and their expressions only if it is true.
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
