import type { JsonObject } from '@tollway/chassis/json.ts'
import {
  type DescriptorRule,
  rateLimitConfigKind,
  rateLimitConfigLimits,
  rulesOfDescriptors,
} from '../rate-limit-config.ts'
import { apiGroup } from '../resource-kind.ts'

const policyName = `${rateLimitConfigKind.plural}.${apiGroup}`

/**
 * Returns a ValidatingAdmissionPolicy and its binding (admissionregistration.k8s.io/v1) with the rules of
 * descriptors that a definition cannot have in CEL, most of them for the levels below the first. One
 * variable has all rules and visits each descriptor once; only the message searches for the violated rule
 * and its level. An update that leaves the descriptors unchanged is admitted, so that a resource that
 * violates a newer rule can still be changed in other fields.
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
          // An older policy may have admitted descriptors that violate a rule of this one.
          name: 'descriptors-change',
          expression:
            'oldObject == null || !has(object.spec.descriptors) || !has(oldObject.spec.descriptors) || ' +
            'object.spec.descriptors != oldObject.spec.descriptors',
        },
      ],
      variables: [
        { name: 'valid', expression: forAllLevels(rulesOfDescriptors) },
        ...messageVariables(rulesOfDescriptors),
      ],
      validations: [
        {
          expression: `variables.valid // ${describeErrors(rulesOfDescriptors)}`,
          messageExpression: firstMessage(rulesOfDescriptors),
          reason: 'Invalid',
        },
      ],
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

/**
 * Returns the comment of the validation. An API server has no message for an error of the evaluation: it answers
 * with the error and the expression, which therefore is short and says what the error is about.
 */
function describeErrors(rules: readonly DescriptorRule[]): string {
  const messages = rules.filter(({ rule }) => rule.failsInCel).map(({ rule }) => rule.cel.message)
  return `spec.descriptors[*].descriptors: ${[...new Set(messages)].join('; ')}`
}

const { maxDescriptorLevels } = rateLimitConfigLimits

/**
 * Returns the conditions for one descriptor of a level, without conditions that the definition has. In them
 * the variable `d1` is the descriptor of the first level, `d2` that of the second, and so on.
 */
function forOne(level: number, rules: readonly DescriptorRule[]): readonly string[] {
  const selectConditions = (wanted: DescriptorRule['field'], self: string) => {
    const ofField = rules.filter(({ field, fromLevel }) => field === wanted && level >= fromLevel)
    const byGuard = Map.groupBy(ofField, ({ rule }) => rule.policyGuard)
    const conditions = [...byGuard].flatMap(([guard, guarded]) => {
      const own = guarded.flatMap(({ rule }) => rule.inPolicy)
      return guard === undefined ? own : [`(${guard}) ? ${areTrue(own)} : true`]
    })
    return conditions.map(condition => condition.replaceAll(/\bself\b/g, self))
  }
  const ofMembers = selectConditions('limits[*]', 'limit')
  return [
    ...selectConditions('', `d${level}`),
    ...selectConditions('rateLimit', `d${level}.?rateLimit`),
    ...(ofMembers.length > 0 ? [`d${level}.?limits.orValue([]).all(limit, ${areTrue(ofMembers)})`] : []),
  ]
}

function areTrue(conditions: readonly string[]): string {
  return conditions.length === 1 ? `${conditions}` : `!(false in [${conditions.join(', ')}])`
}

/**
 * Returns an expression that is true if the conditions are true for all descriptors of the level in
 * `parent`.
 */
function forAll(parent: string, level: number, conditions: readonly string[]): string {
  return `${parent}.?descriptors.orValue([]).all(d${level}, ${areTrue(conditions)})`
}

function forAllLevels(rules: readonly DescriptorRule[]): string {
  let conditions = forOne(maxDescriptorLevels, rules)
  for (let level = maxDescriptorLevels; level > 1; level--) {
    conditions = [...forOne(level - 1, rules), forAll(`d${level - 1}`, level, conditions)]
  }
  return forAll('object.spec', 1, conditions)
}

function forAllOfLevel(wanted: number, rule: DescriptorRule): string {
  let conditions = forOne(wanted, [rule])
  for (let level = wanted; level > 1; level--) conditions = [forAll(`d${level - 1}`, level, conditions)]
  return forAll('object.spec', 1, conditions)
}

/**
 * Returns a variable for each rule, whose value is the rule's message if the rule is violated, else ''. An
 * API server compiles each variable separately, and the time of a compilation grows with the square of the
 * expression's length.
 */
function messageVariables(
  rules: readonly DescriptorRule[],
): { readonly name: string; readonly expression: string }[] {
  return rules.map((rule, index) => ({
    name: `message${index + 1}`,
    expression: `!${forAllLevels([rule])} ? (${messageFor(rule)}) : ''`,
  }))
}

function firstMessage(rules: readonly DescriptorRule[]): string {
  const [last = '', ...others] = messageVariables(rules)
    .map(({ name }) => `variables.${name}`)
    .toReversed()
  return others.reduce((rest, message) => `${message} != '' ? ${message} : ${rest}`, last)
}

/**
 * Returns an expression for the message of a violated rule, which names the first level that violates it:
 * `spec.descriptors[*].descriptors[*].rateLimit: …`.
 */
function messageFor(wanted: DescriptorRule): string {
  const { field, rule, fromLevel } = wanted
  const place = (level: number) => `spec${'.descriptors[*]'.repeat(level)}${field && `.${field}`}`
  const textFor = (level: number) => JSON.stringify(`${place(level)}: ${rule.cel.message}`)
  let text = textFor(maxDescriptorLevels)
  for (let level = maxDescriptorLevels - 1; level >= fromLevel; level--) {
    text = `!${forAllOfLevel(level, wanted)} ? ${textFor(level)} : ${text}`
  }
  return text
}
