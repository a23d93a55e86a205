import { rateLimitConfigKind, rateLimitConfigLimits, rulesOfDescriptors } from '../rate-limit-config.ts'
import { apiGroup } from '../resource-kind.ts'
import type { CelRule, JsonObject } from '../schema.ts'

/** The name of the policy, and of its binding. */
export const policyName = `${rateLimitConfigKind.plural}.${apiGroup}`

/**
 * The rules of descriptors below the first level, where a definition cannot have CEL: a
 * ValidatingAdmissionPolicy and its binding (admissionregistration.k8s.io/v1). Each rule visits each
 * descriptor once; only a message searches for the level with the problem. An update that does not change the
 * descriptors passes, so that a resource that breaks a newer rule can still be changed in other fields.
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
      matchConditions: [
        {
          // An older policy may have accepted descriptors that break a rule of this one.
          name: 'descriptors-change',
          expression:
            'oldObject == null || !has(object.spec.descriptors) || !has(oldObject.spec.descriptors) || ' +
            'object.spec.descriptors != oldObject.spec.descriptors',
        },
      ],
      validations: rulesOfDescriptors.map(({ field, cel }) => ({
        expression: forAllBelowFirst(field, cel.rule),
        messageExpression: messageFor(field, cel),
        reason: 'Invalid',
      })),
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

const { maxDescriptorLevels } = rateLimitConfigLimits

/** The rule for one descriptor. Each level has a variable of its own, `d1` for those of the first one. */
function forOne(level: number, field: string, rule: string): string {
  const own = `d${level}`
  if (field === '') return `(${rule.replaceAll(/\bself\b/g, own)})`
  const self = `${own}.${field}`
  return `(!has(${self}) || (${rule.replaceAll(/\bself\b/g, self)}))`
}

/** Whether `judge` is true for all descriptors of the level in `parent`. */
function forAll(parent: string, level: number, judge: string): string {
  return `(!has(${parent}.descriptors) || ${parent}.descriptors.all(d${level}, ${judge}))`
}

function forAllBelowFirst(field: string, rule: string): string {
  let below = forOne(maxDescriptorLevels, field, rule)
  for (let level = maxDescriptorLevels; level > 2; level--) {
    below = `${forOne(level - 1, field, rule)} && ${forAll(`d${level - 1}`, level, below)}`
  }
  return forAll('object.spec', 1, forAll('d1', 2, below))
}

function forAllOfLevel(wanted: number, field: string, rule: string): string {
  let expression = forOne(wanted, field, rule)
  for (let level = wanted; level > 1; level--) expression = forAll(`d${level - 1}`, level, expression)
  return forAll('object.spec', 1, expression)
}

/** Names the first level that violates the rule: `spec.descriptors[*].descriptors[*].rateLimit: …`. */
function messageFor(field: string, { rule, message }: CelRule): string {
  const place = (level: number) => `spec${'.descriptors[*]'.repeat(level)}${field && `.${field}`}`
  const textFor = (level: number) => JSON.stringify(`${place(level)}: ${message}`)
  let text = textFor(maxDescriptorLevels)
  for (let level = maxDescriptorLevels - 1; level >= 2; level--) {
    text = `!${forAllOfLevel(level, field, rule)} ? ${textFor(level)} : ${text}`
  }
  return text
}
