import Type from 'typebox'
import { type FieldRule, withRules } from '../field-rule.ts'
import type { Schema } from '../schema.ts'
import { limitBounds, units, weekdays } from './limit-bounds.ts'
import { rulesOfRateLimit } from './limit-rules.ts'

/**
 * The API server estimates the cost of CEL in a definition, and rejects it inside nested lists. Below the top
 * level an admission policy has the rules (see `rulesOfDescriptors`).
 */
export function withRulesOfLevel(
  level: number,
  rules: readonly FieldRule[],
): Pick<Schema, 'rules' | 'x-kubernetes-validations'> {
  return level === 1 ? withRules(rules) : { ...withRules(rules), 'x-kubernetes-validations': [] }
}

/** `rateLimit`: the limit of a descriptor. */
export function rateLimitSchema(level: number) {
  return Type.Object(
    {
      unit: Type.Optional(
        Type.Enum(units, {
          type: 'string',
          description:
            'The length of the window in which requests are counted. Windows are aligned to the Unix ' +
            'epoch: a week begins on Thursday at 00:00 UTC, a month is 30 days and a year 365 days. ' +
            'Required unless unlimited.',
        }),
      ),
      requestsPerUnit: Type.Optional(
        Type.Integer({
          format: 'int64',
          minimum: 0,
          maximum: limitBounds.maxRequestsPerUnit,
          description:
            'The number of requests that are allowed in a unit; 0 blocks every request. Required unless unlimited.',
        }),
      ),
      unlimited: Type.Optional(
        Type.Boolean({
          description: 'Every request is allowed, and none is counted. Replaces unit and requestsPerUnit.',
        }),
      ),
      name: Type.Optional(
        Type.String({
          maxLength: limitBounds.maxNameLength,
          description:
            'The name of the rule. Other rules can replace it by this name, and responses contain it.',
        }),
      ),
      ...replacesAndWindows(),
    },
    {
      ...withRulesOfLevel(level, rulesOfRateLimit),
      description:
        'The limit: either unlimited, or unit and requestsPerUnit. Without it, a descriptor with nested ' +
        'descriptors is only their parent, and a descriptor without nested descriptors allows every ' +
        'request.',
    },
  )
}

function replacesAndWindows() {
  return {
    replaces: Type.Optional(
      Type.Array(replacedRule(), {
        maxItems: limitBounds.maxReplaces,
        'x-kubernetes-list-type': 'atomic',
        description:
          'Rules that do not apply to a request if it also matches this rule. A replaced rule ' +
          'neither counts the request nor decides on it.',
      }),
    ),
    unitMultiplier: Type.Optional(
      Type.Integer({
        format: 'int64',
        minimum: 1,
        maximum: limitBounds.maxUnitMultiplier,
        description:
          'The number of units in a window; 1 if left out. With unit second and 15, requestsPerUnit requests ' +
          'are allowed in 15 seconds. Windows of a calendar are counted from 1970.',
      }),
    ),
    calendar: Type.Optional(calendarSchema()),
  }
}

function calendarSchema() {
  const ordinal = (maximum: number, description: string) =>
    Type.Optional(Type.Integer({ format: 'int64', minimum: 1, maximum, description }))
  return Type.Object(
    {
      timeZone: Type.String({
        minLength: 1,
        maxLength: limitBounds.maxTimeZoneLength,
        pattern: '^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$',
        description: 'A name of the IANA time zone database, such as Europe/Copenhagen or UTC.',
      }),
      anchorMonth: ordinal(
        12,
        'The month with which a year begins; 1, January, if left out. For months with a unitMultiplier, a ' +
          'month with which a window begins.',
      ),
      anchorDay: ordinal(
        31,
        'The day with which a month or a year begins; 1 if left out. In a month that lacks it, the last day.',
      ),
      anchorWeekday: Type.Optional(
        Type.Enum(weekdays, {
          type: 'string',
          description: 'The day with which a week begins; Monday if left out.',
        }),
      ),
    },
    {
      description:
        'Windows are those of the local calendar instead of the Unix epoch: a window begins at the first ' +
        'instant of its local date. Needs the unit day, week, month or year.',
    },
  )
}

function replacedRule() {
  return Type.Object(
    {
      name: Type.String({
        minLength: 1,
        maxLength: limitBounds.maxNameLength,
        description: 'The name in rateLimit.name of the rule that is replaced.',
      }),
    },
    { description: 'A rule that is replaced.' },
  )
}
