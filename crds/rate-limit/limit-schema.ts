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
      unit: Type.Optional(unitField(' Required unless unlimited is true.')),
      requestsPerUnit: Type.Optional(requestsField(' Required unless unlimited is true.')),
      unlimited: Type.Optional(
        Type.Boolean({
          description: 'Allows every request, and counts none. Set it instead of unit and requestsPerUnit.',
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
        'The limit: either unlimited, or unit and requestsPerUnit. Without a limit, a descriptor with nested ' +
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
      'Several limits instead of rateLimit. A request is allowed only if every limit allows it. All limits count ' +
      'an allowed request. Only limits with countRejected count a rejected one.',
  })
}

function memberSchema(level: number) {
  const flag = (description: string) => Type.Optional(Type.Boolean({ description }))
  return Type.Object(
    {
      unit: unitField(),
      requestsPerUnit: requestsField(),
      unlimited: flag('Not allowed inside limits. Use rateLimit for an unlimited rule.'),
      name: nameField(
        'The name of the limit in statistics, in responses and in replaces of other rules. By default, statistics ' +
          'and responses have the index of the limit.',
      ),
      ...commonFields(),
      shadowMode: flag('Tests the limit: it counts requests and updates the statistics, but rejects none.'),
      quotaMode: flag('Makes the limit a quota, as quotaMode of a descriptor does.'),
    },
    {
      ...withRulesOfLevel(level, rulesOfMember),
      rules: [...rulesOfMember, ...costlyRulesOfMember].map(({ judge }) => judge),
      description: 'A limit.',
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
    description: `The number of requests that are allowed in a window. 0 rejects every request.${more}`,
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
          'The rules that do not apply to a request that also matches this rule. A replaced rule neither counts nor ' +
          'rejects the request.',
      }),
    ),
    algorithm: Type.Optional(
      Type.Enum(algorithms, {
        type: 'string',
        description:
          'The algorithm that counts requests. FixedWindow, the default, counts the requests since the window ' +
          'began. SlidingWindow also counts the part of the previous window that is less than one window ' +
          'ago. TokenBucket allows burst requests at once, and refills by requestsPerUnit in each window. ' +
          'SlidingWindow and TokenBucket count only requests that they allow, unless countRejected is true.',
      }),
    ),
    burst: Type.Optional(
      Type.Integer({
        format: 'int64',
        minimum: 1,
        maximum: limitBounds.maxRequestsPerUnit,
        description: 'The size of the TokenBucket in requests. The default is requestsPerUnit.',
      }),
    ),
    unitMultiplier: Type.Optional(
      Type.Integer({
        format: 'int64',
        minimum: 1,
        maximum: limitBounds.maxUnitMultiplier,
        description:
          'The number of units in a window. The default is 1. With unit second and 15, requestsPerUnit requests ' +
          'are allowed in 15 seconds. Windows of a calendar are counted from 1970.',
      }),
    ),
    calendar: Type.Optional(calendarSchema()),
    headers: Type.Optional(
      Type.Boolean({
        description: 'Whether response headers contain the limit. The default is true.',
      }),
    ),
    countRejected: Type.Optional(
      Type.Boolean({
        description:
          'Whether the limit also counts rejected requests: a TokenBucket then owes more than its burst, and a window ' +
          'has more than requestsPerUnit. Set it if costs are reported after their requests, because the limit ' +
          'otherwise loses a cost that exceeds what is left. The default is false. A FixedWindow in rateLimit counts ' +
          'rejected requests anyway, unless allOrNothing is true.',
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
        'The first month of a year, from 1 (January, the default). With unit month and a unitMultiplier, it is the ' +
          'first month of a window.',
      ),
      anchorDay: ordinal(
        31,
        'The first day of a month or a year. The default is 1. A month without this day begins on its last day.',
      ),
      anchorWeekday: Type.Optional(
        Type.Enum(weekdays, {
          type: 'string',
          description: 'The first day of a week. The default is Monday.',
        }),
      ),
    },
    {
      description:
        'Aligns windows to the local calendar instead of the Unix epoch: a window begins at the first instant of ' +
        'its local date. Requires the algorithm FixedWindow, and the unit day, week, month or year.',
    },
  )
}

function replacedRule() {
  return Type.Object(
    {
      name: Type.String({
        minLength: 1,
        maxLength: limitBounds.maxNameLength,
        description: 'The name of the replaced rule: rateLimit.name, or the name of a member of limits.',
      }),
    },
    { description: 'A replaced rule.' },
  )
}
