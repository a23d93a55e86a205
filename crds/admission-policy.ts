import { rateLimitConfigKind, rateLimitConfigLimits, rulesOfDescriptors } from './rate-limit-config.ts'
import { apiGroup } from './resource-kind.ts'
import type { JsonObject } from './schema.ts'

/** The name of the policy, and of its binding. */
export const policyName = `${rateLimitConfigKind.plural}.${apiGroup}`

/**
 * The rules of descriptors below the first level, where a definition may hold no CEL: a
 * ValidatingAdmissionPolicy and its binding (admissionregistration.k8s.io/v1). One validation a rule and level,
 * so that the message can say where.
 */
export function admissionPolicy(): readonly [policy: JsonObject, binding: JsonObject] {
  const { plural, version } = rateLimitConfigKind
  const apiVersion = 'admissionregistration.k8s.io/v1'
  const policy = {
    apiVersion,
    kind: 'ValidatingAdmissionPolicy',
    metadata: { name: policyName },
    spec: {
      failurePolicy: 'Fail',
      matchConstraints: {
        resourceRules: [
          {
            apiGroups: [apiGroup],
            apiVersions: [version],
            operations: ['CREATE', 'UPDATE'],
            resources: [plural],
          },
        ],
      },
      validations: nestedLevels().flatMap(level =>
        rulesOfDescriptors.map(({ field, cel }) => ({
          expression: forAllOfLevel(level, field, cel.rule),
          message: `${pathOfLevel(level)}${field && `.${field}`}: ${cel.message}`,
          reason: 'Invalid',
        })),
      ),
    },
  }
  const binding = {
    apiVersion,
    kind: 'ValidatingAdmissionPolicyBinding',
    metadata: { name: policyName },
    spec: { policyName, validationActions: ['Deny'] },
  }
  return [policy, binding]
}

function nestedLevels(): readonly number[] {
  return Array.from({ length: rateLimitConfigLimits.maxDescriptorLevels - 1 }, (_, index) => index + 2)
}

/** `spec.descriptors[*].descriptors[*]`. */
function pathOfLevel(level: number): string {
  return `spec${'.descriptors[*]'.repeat(level)}`
}

/** Each level has a variable of its own: `d1` for the descriptors of the first one. */
function forAllOfLevel(level: number, field: string, rule: string): string {
  const own = `d${level}`
  const self = field === '' ? own : `${own}.${field}`
  const judged = rule.replaceAll(/\bself\b/g, self)
  let expression = field === '' ? judged : `!has(${self}) || (${judged})`
  for (let above = level - 1; above >= 0; above--) {
    const parent = above === 0 ? 'object.spec' : `d${above}`
    expression = `!has(${parent}.descriptors) || ${parent}.descriptors.all(d${above + 1}, ${expression})`
  }
  return expression
}
