import { weekdays } from '@tollway/ratelimit/rules/calendar/calendar.ts'
import { algorithms } from '@tollway/ratelimit/rules/rate-limit-domain.ts'
import { units } from '@tollway/ratelimit/rules/units.ts'
import Type from 'typebox'
import { type FieldRule, withRules } from '../field-rule.ts'
import type { Schema } from '../schema.ts'
import { limitBounds } from './limit-bounds.ts'
import { costlyRulesOfMember, rulesOfMember, rulesOfRateLimit } from './limit-rules.ts'

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

/** `rateLimit`: the only limit of a descriptor. */
export function rateLimitSchema(level: number) {
  return Type.Object(
    {
      unit: Type.Optional(unitField(' Required unless unlimited.')),
      requestsPerUnit: Type.Optional(requestsField(' Required unless unlimited.')),
      unlimited: Type.Optional(
        Type.Boolean({
          description: 'Every request is allowed, and none is counted. Replaces unit and requestsPerUnit.',
        }),
      ),
      name: nameField(
        'The name of the rule. Other rules can replace it by this name, and responses contain it.',
      ),
      ...commonFields(),
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

/** `limits`: several limits of a descriptor. */
export function limitsSchema(level: number) {
  return Type.Array(memberSchema(level), {
    minItems: limitBounds.minLimits,
    maxItems: limitBounds.maxLimits,
    'x-kubernetes-list-type': 'atomic',
    description:
      'Several limits instead of rateLimit. A request is allowed if every limit allows it; then all limits ' +
      'count it, otherwise none does.',
  })
}

function memberSchema(level: number) {
  const flag = (description: string) => Type.Optional(Type.Boolean({ description }))
  return Type.Object(
    {
      unit: unitField(),
      requestsPerUnit: requestsField(),
      unlimited: flag('Not allowed here: use rateLimit for an unlimited rule.'),
      name: nameField(
        'The name of the limit in statistics and responses, and for rules that replace it. Without a name, ' +
          'statistics and responses have its index.',
      ),
      ...commonFields(),
      shadowMode: flag('Tests the limit: it counts requests and updates the statistics, but refuses none.'),
      quotaMode: flag('Makes the limit a quota, as the field of the same name does for a descriptor.'),
    },
    {
      ...withRulesOfLevel(level, rulesOfMember),
      rules: [...rulesOfMember, ...costlyRulesOfMember].map(({ judge }) => judge),
      description: 'One of the limits.',
    },
  )
}

function unitField(more = '') {
  return Type.Enum(units, {
    type: 'string',
    description:
      'The length of the window in which requests are counted. Windows are aligned to the Unix ' +
      `epoch: a week begins on Thursday at 00:00 UTC, a month is 30 days and a year 365 days.${more}`,
  })
}

function requestsField(more = '') {
  return Type.Integer({
    format: 'int64',
    minimum: 0,
    maximum: limitBounds.maxRequestsPerUnit,
    description: `The number of requests that are allowed in a unit; 0 blocks every request.${more}`,
  })
}

function nameField(description: string) {
  return Type.Optional(Type.String({ maxLength: limitBounds.maxNameLength, description }))
}

/** The fields that `rateLimit` and a member of `limits` have. */
function commonFields() {
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
    algorithm: Type.Optional(
      Type.Enum(algorithms, {
        type: 'string',
        description:
          'How requests are counted. FixedWindow, the default, counts the requests since the window began. ' +
          'SlidingWindow adds the part of the previous window that is not over yet. TokenBucket allows burst ' +
          'requests at once, and requestsPerUnit in each window. Both count only requests that they allow.',
      }),
    ),
    burst: Type.Optional(
      Type.Integer({
        format: 'int64',
        minimum: 1,
        maximum: limitBounds.maxRequestsPerUnit,
        description: 'The size of the TokenBucket in requests; requestsPerUnit if left out.',
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
    headers: Type.Optional(
      Type.Boolean({
        description: 'Whether headers of responses list the limit; true if left out.',
      }),
    ),
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
        'instant of its local date. Needs the algorithm FixedWindow, and the unit day, week, month or year.',
    },
  )
}

function replacedRule() {
  return Type.Object(
    {
      name: Type.String({
        minLength: 1,
        maxLength: limitBounds.maxNameLength,
        description: 'The name of the rule that is replaced: in rateLimit.name, or of a member of limits.',
      }),
    },
    { description: 'A rule that is replaced.' },
  )
}
