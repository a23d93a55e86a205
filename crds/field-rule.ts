import type { CelRule, Rule, Schema } from './schema.ts'

/** A rule between fields, in CEL for the API server and for validation in this process. */
export interface FieldRule {
  readonly cel: CelRule
  readonly judge: Rule
}

export function withRules(
  rules: readonly FieldRule[],
): Required<Pick<Schema, 'rules' | 'x-kubernetes-validations'>> {
  return {
    rules: rules.map(({ judge }) => judge),
    'x-kubernetes-validations': rules.map(({ cel }) => cel),
  }
}
