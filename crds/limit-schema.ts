import {
  type deliveries,
  type FieldTable,
  limitFields,
  maxRequestsPerUnit,
  memberFields,
  type RuleField,
  type TextForm,
  type ValueOf,
} from '@tollway/ratelimit/rules/fields.ts'
import { maxLimits, minLimits } from '@tollway/ratelimit/rules/model.ts'
import { units } from '@tollway/ratelimit/rules/units.ts'
import Type, { type TOptional, type TUnsafe } from 'typebox'
import { costlyRulesOfMember, rulesOfMember, rulesOfRateLimit } from './limit-rules.ts'
import { type FieldRule, type Schema, typed, withRules } from './schema.ts'

/** The longest name of a rule, in characters. */
export const maxNameLength = 128
/**
 * At most this many rules can be replaced by one rule. More of them, or longer names, would make the CEL
 * rules of the first level exceed the cost that an API server allows.
 */
export const maxReplaces = 16

/** Returns the schemas of the fields in a table, all of which are optional. */
export function fieldSchemas<T extends FieldTable>(
  table: T,
): { [Name in keyof T]: TOptional<TUnsafe<ValueOf<T[Name]>> & Schema> } {
  const schemas = Object.entries(table).map(([name, field]) => [name, Type.Optional(typed(toSchema(field)))])
  return Object.fromEntries(schemas)
}

function toSchema(field: RuleField): Schema {
  const { description } = field
  const textOf = ({ maxLength, pattern, form }: TextForm) => ({
    type: 'string' as const,
    minLength: 1,
    maxLength,
    ...(pattern !== undefined && { pattern }),
    ...(form !== undefined && { form }),
  })
  switch (field.kind) {
    case 'flag':
      return { type: 'boolean', description }
    case 'count':
      return { type: 'integer', format: 'int64', minimum: 1, maximum: field.maximum, description }
    case 'choice':
      return { type: 'string', enum: field.words, description }
    case 'text':
      return { ...textOf(field), description }
    case 'texts': {
      const items = { ...textOf(field), description: 'One of the texts.' }
      return {
        type: 'array',
        minItems: 1,
        maxItems: field.maxItems,
        'x-kubernetes-list-type': 'atomic',
        items,
        description,
      }
    }
    case 'group': {
      const { fields } = field
      const properties = Object.entries(fields).map(([name, inner]) => [name, toSchema(inner)])
      const required = Object.keys(fields).filter(name => 'required' in (fields[name] ?? {}))
      return { type: 'object', required, properties: Object.fromEntries(properties), description }
    }
  }
}

/**
 * Returns the part of a level's schema with these rules. Only the first level also has them in CEL: an API
 * server estimates the cost of CEL, and rejects rules inside nested lists. For the levels below, the
 * admission policy has the rules (`rulesOfDescriptors`).
 */
export function withRulesOfLevel(
  level: number,
  rules: readonly FieldRule[],
): Pick<Schema, 'rules' | 'x-kubernetes-validations'> {
  return level === 1 ? withRules(rules) : { ...withRules(rules), 'x-kubernetes-validations': [] }
}

export function rateLimitSchema(level: number) {
  return Type.Object(
    {
      unit: Type.Optional(unitField(' Required unless unlimited is true or the algorithm is Concurrency.')),
      requestsPerUnit: Type.Optional(
        requestsField(' Required unless unlimited is true or the algorithm is Concurrency.'),
      ),
      unlimited: Type.Optional(
        Type.Boolean({
          description: 'Allows every request, and counts none. Set it instead of unit and requestsPerUnit.',
        }),
      ),
      name: nameField(
        'The name of the rule. Other rules can replace it by this name, and responses contain it.',
      ),
      replaces: replacesField(),
      ...fieldSchemas(limitFields),
    },
    {
      ...withRulesOfLevel(level, rulesOfRateLimit),
      description:
        'The limit: either unlimited, or unit and requestsPerUnit, or Concurrency. Without a limit, a descriptor with nested ' +
        'descriptors is only their parent, and a descriptor without nested descriptors allows every ' +
        'request.',
    },
  )
}

export function limitsSchema(level: number) {
  return Type.Array(memberSchema(level), {
    minItems: minLimits,
    maxItems: maxLimits,
    'x-kubernetes-list-type': 'atomic',
    description:
      'Several limits instead of rateLimit. A request is allowed only if every limit allows it. All limits count ' +
      'an allowed request. Only limits with countRejected count a rejected one.',
  })
}

function memberSchema(level: number) {
  return Type.Object(
    {
      unit: Type.Optional(unitField(' Required unless the algorithm is Concurrency.')),
      requestsPerUnit: Type.Optional(requestsField(' Required unless the algorithm is Concurrency.')),
      unlimited: Type.Optional(
        Type.Boolean({ description: 'Not allowed inside limits. Use rateLimit for an unlimited rule.' }),
      ),
      name: nameField(
        'The name of the limit in statistics, in responses and in replaces of other rules. By default, statistics ' +
          'and responses have the index of the limit.',
      ),
      replaces: replacesField(),
      ...fieldSchemas(memberFields),
      delivery: Type.Optional(
        typed<(typeof deliveries)[number]>({
          type: 'string',
          enum: ['Calls'],
          description: 'Quota is for rateLimit only, because a proxy decides by its share of one limit.',
        }),
      ),
    },
    {
      ...withRulesOfLevel(level, rulesOfMember),
      rules: [...rulesOfMember, ...costlyRulesOfMember].map(({ judge }) => judge),
      description: 'A limit.',
    },
  )
}

function unitField(more: string) {
  return Type.Enum(units, {
    type: 'string',
    description:
      'The length of the window in which requests are counted. Windows are aligned to the Unix ' +
      `epoch: a week begins on Thursday at 00:00 UTC, a month is 30 days and a year 365 days.${more}`,
  })
}

function requestsField(more: string) {
  return Type.Integer({
    format: 'int64',
    minimum: 0,
    maximum: maxRequestsPerUnit,
    description: `The number of requests that are allowed in a window. 0 rejects every request.${more}`,
  })
}

function nameField(description: string) {
  return Type.Optional(Type.String({ maxLength: maxNameLength, description }))
}

function replacesField() {
  return Type.Optional(
    Type.Array(replacedRule(), {
      maxItems: maxReplaces,
      'x-kubernetes-list-type': 'atomic',
      description:
        'The rules that do not apply to a request that also matches this rule. A replaced rule neither counts nor ' +
        'rejects the request.',
    }),
  )
}

function replacedRule() {
  return Type.Object(
    {
      name: Type.String({
        minLength: 1,
        maxLength: maxNameLength,
        description: 'The name of the replaced rule: rateLimit.name, or the name of a member of limits.',
      }),
    },
    { description: 'A replaced rule.' },
  )
}
