import Type, { type Static } from 'typebox'
import type { DeepReadonly } from './deep-readonly.ts'
import { describeFound } from './describe.ts'
import { type FieldRule, withRules } from './field-rule.ts'
import { feedColumns } from './printer-columns.ts'
import type { Resource, ResourceKind } from './resource-kind.ts'
import { commonStatus, feedStatus } from './resource-status.ts'
import { type CelRule, type Fields, type JsonObject, type Problem, type Schema, typed } from './schema.ts'

/** What a RateLimitConfig may hold. Lengths are in characters. */
export const rateLimitConfigLimits = {
  maxDomainLength: 253,
  /** Levels of descriptors below each other, the top one counted. */
  maxDescriptorLevels: 8,
  /** Descriptors in one list; about what fits into the 1.5 MiB that a resource may have in a cluster. */
  maxSiblings: 10_000,
  maxKeyLength: 256,
  maxValueLength: 1024,
  maxNameLength: 128,
  /** Longer names, or more of them, would make CEL over the first level dearer than an API server allows. */
  maxReplaces: 16,
  maxMetadataFields: 64,
  maxRequestsPerUnit: 0xffffffff,
} as const

const limits = rateLimitConfigLimits
const units = ['second', 'minute', 'hour', 'day', 'week', 'month', 'year'] as const

/** How much a caller may do. Either `unlimited`, or a `unit` and its `requestsPerUnit`. */
export type RateLimit = DeepReadonly<Static<ReturnType<typeof rateLimitSchema>>>

/** A rule, or a step on the way to the rules below it. Validation always sets `value`. */
export interface Descriptor extends DescriptorFields {
  readonly descriptors?: readonly Descriptor[]
}

export type RateLimitConfigSpec = Readonly<Static<typeof spec>>

export type RateLimitConfig = Resource<'tollway.dev/v1alpha1', 'RateLimitConfig', RateLimitConfigSpec>

type DescriptorFields = {
  readonly [Name in keyof WrittenFields]: Name extends 'metadata'
    ? JsonObject
    : DeepReadonly<WrittenFields[Name]>
}
type WrittenFields = Static<ReturnType<typeof descriptorSchema>>

/**
 * The API server estimates what CEL in a definition may cost, and refuses it inside nested lists. Below the top
 * level its place is an admission policy (see `rulesOfDescriptors`).
 */
function withRulesOfLevel(
  level: number,
  rules: readonly FieldRule[],
): Pick<Schema, 'rules' | 'x-kubernetes-validations'> {
  return level === 1 ? withRules(rules) : { ...withRules(rules), 'x-kubernetes-validations': [] }
}

const unitAndRequests = ['unit', 'requestsPerUnit'] as const

const limitedOrUnlimited: FieldRule = {
  cel: {
    rule:
      'has(self.unlimited) && self.unlimited ? !has(self.unit) && !has(self.requestsPerUnit) ' +
      ': has(self.unit) && has(self.requestsPerUnit)',
    message: 'set either unlimited to true, or both unit and requestsPerUnit',
  },
  judge(rateLimit) {
    const { unlimited } = rateLimit
    if (unlimited === true) {
      return unitAndRequests.flatMap(name =>
        problemIf(
          rateLimit[name] !== undefined,
          name,
          `${describeFound(rateLimit[name])} stands beside unlimited: true; leave out one of the two`,
        ),
      )
    }
    if (unlimited !== undefined && unlimited !== false) return []
    const allowed = {
      unit: `one of ${units.join(', ')}`,
      requestsPerUnit: `a whole number from 0 to ${limits.maxRequestsPerUnit}`,
    }
    return unitAndRequests.flatMap(name =>
      problemIf(
        rateLimit[name] === undefined,
        name,
        `is missing; needed is ${allowed[name]}, unless unlimited is true`,
      ),
    )
  },
}

const replacesOthers: FieldRule = {
  cel: {
    rule: '!has(self.name) || !has(self.replaces) || self.replaces.all(replaced, replaced.name != self.name)',
    message: 'replaces names the rule itself; name other rules only',
  },
  judge({ name, replaces }) {
    if (typeof name !== 'string' || name === '' || !Array.isArray(replaces)) return []
    return replaces.flatMap((replaced: Fields | null, index) =>
      problemIf(
        replaced?.['name'] === name,
        `replaces[${index}].name`,
        `${describeFound(name)} is the name of the rule itself; allowed are the names of others`,
      ),
    )
  },
}

const sharedByWildcard: FieldRule = {
  cel: {
    rule: "!has(self.shareThreshold) || !self.shareThreshold || self.value.contains('*')",
    message: 'shareThreshold needs a value with the wildcard *',
  },
  judge({ shareThreshold, value = '' }) {
    const shares = shareThreshold === true && typeof value === 'string' && !value.includes('*')
    const message = `true needs a value with the wildcard *; found is the value ${describeFound(value)}`
    return problemIf(shares, 'shareThreshold', message)
  },
}

/** The rules of one descriptor in CEL, and of which of its fields each speaks as `self`; '' for itself. */
export const rulesOfDescriptors: readonly { readonly field: '' | 'rateLimit'; readonly cel: CelRule }[] = [
  { field: '', cel: sharedByWildcard.cel },
  { field: 'rateLimit', cel: limitedOrUnlimited.cel },
  { field: 'rateLimit', cel: replacesOthers.cel },
]

function problemIf(wrong: boolean, path: string, message: string): readonly Problem[] {
  return wrong ? [{ path, message }] : []
}

function rateLimitSchema(level: number) {
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
          maximum: limits.maxRequestsPerUnit,
          description:
            'How many requests are allowed in a unit; 0 blocks every request. Required unless unlimited.',
        }),
      ),
      unlimited: Type.Optional(
        Type.Boolean({
          description:
            'Every request is allowed, and none is counted. Stands instead of unit and requestsPerUnit.',
        }),
      ),
      name: Type.Optional(
        Type.String({
          maxLength: limits.maxNameLength,
          description:
            'A name by which other rules can replace this one, and which callers see in the answer.',
        }),
      ),
      replaces: Type.Optional(
        Type.Array(replacedRule(), {
          maxItems: limits.maxReplaces,
          'x-kubernetes-list-type': 'atomic',
          description:
            'Rules that do not apply to a request when this one matches it as well. A replaced rule ' +
            'neither counts the request nor decides on it.',
        }),
      ),
    },
    {
      ...withRulesOfLevel(level, [limitedOrUnlimited, replacesOthers]),
      description:
        'How much a caller may do: either unlimited, or unit and requestsPerUnit. Without it, a ' +
        'descriptor that has others below it is only a step on the way to them, and one that has none ' +
        'lets every request through.',
    },
  )
}

function replacedRule() {
  return Type.Object(
    {
      name: Type.String({
        minLength: 1,
        maxLength: limits.maxNameLength,
        description: 'The name in rateLimit.name of the rule that is replaced.',
      }),
    },
    { description: 'A rule that is replaced.' },
  )
}

/** A descriptor without those below it, which differ by level. */
function descriptorSchema(level: number) {
  return Type.Object(
    {
      key: Type.String({
        minLength: 1,
        maxLength: limits.maxKeyLength,
        description:
          'The key of the request entry that this descriptor matches. Case matters. A request matches ' +
          'level by level: its first entry a descriptor of the first list, its second entry one of the ' +
          'list below, and so on; the limit is that of the descriptor which its last entry matches.',
      }),
      value: Type.Optional(
        Type.String({
          default: '',
          maxLength: limits.maxValueLength,
          description:
            'The value of the request entry that this descriptor matches; case matters. A * stands for ' +
            'any characters, or none. When it is empty or left out, every value matches, and each has a ' +
            'counter of its own. An exact value is preferred to a wildcard, and a wildcard to none.',
        }),
      ),
      rateLimit: Type.Optional(rateLimitSchema(level)),
      ...descriptorFlags(),
      metadata: Type.Optional(
        typed<JsonObject>({
          type: 'object',
          maxProperties: limits.maxMetadataFields,
          'x-kubernetes-preserve-unknown-fields': true,
          description:
            'Anything that callers shall get with the decision when this rule matched and let the ' +
            'request through. It is sent as dynamic metadata when the service runs with ' +
            'RESPONSE_DYNAMIC_METADATA=true. An unlimited rule sends none.',
        }),
      ),
    },
    {
      ...withRulesOfLevel(level, [sharedByWildcard]),
      description:
        'Matches one entry of a request. No two descriptors of a list have the same key and value.',
    },
  )
}

function descriptorFlags() {
  const flag = (description: string) => Type.Optional(Type.Boolean({ description }))
  return {
    shadowMode: flag(
      'Tries the rule out: it counts and is part of the statistics, but its answer is always OK.',
    ),
    detailedMetric: flag(
      'Names the statistics by the values that requests bring instead of by the rule. Each value makes new ' +
        'statistics, so use it where there are few.',
    ),
    quotaMode: flag(
      'Makes the rule a quota: a call is over its quotas only when all of those that it matched are over, ' +
        'while any other rule refuses it alone.',
    ),
    valueToMetric: flag(
      'Puts the value that a request brings into the names of the statistics, for this level only. Each ' +
        'value makes new statistics. detailedMetric goes first.',
    ),
    shareThreshold: flag(
      'All values that match the wildcard share one counter, instead of having one each. Needs a value ' +
        'with a *.',
    ),
  }
}

function descriptorList(level: number): Schema {
  const { maxSiblings, maxDescriptorLevels } = limits
  const item = descriptorSchema(level)
  const below = level < maxDescriptorLevels ? descriptorList(level + 1) : endOfLevels
  return {
    type: 'array',
    maxItems: maxSiblings,
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['key', 'value'],
    description:
      level === 1
        ? 'The rules of the domain. May be empty, which limits nothing.'
        : `Descriptors for the next entry of a request; ${maxDescriptorLevels} levels at most.`,
    items: { ...item, properties: { ...item.properties, descriptors: below } },
  }
}

/**
 * The field exists on the last level too, and must be empty there: a field that is not known would be
 * dropped without a word by clients that ask for no strict validation, and turn a step on the way into a
 * rule.
 */
const endOfLevels: Schema = {
  type: 'array',
  maxItems: 0,
  'x-kubernetes-list-type': 'atomic',
  tooManyItems: `descriptors are nested deeper than the ${limits.maxDescriptorLevels} levels allowed`,
  description: `Must be empty: this is the last of ${limits.maxDescriptorLevels} levels.`,
  items: {
    type: 'object',
    'x-kubernetes-preserve-unknown-fields': true,
    description: 'Not allowed.',
  },
}

const spec = Type.Object(
  {
    domain: Type.String({
      minLength: 1,
      maxLength: limits.maxDomainLength,
      'x-kubernetes-validations': [
        {
          rule: 'self == oldSelf',
          message: 'domain cannot be changed; make a new resource for another domain',
        },
      ],
      description:
        'The domain that callers name in their requests. It belongs to one resource: the oldest that ' +
        'names it. Cannot be changed.',
    }),
    descriptors: typed<readonly Descriptor[]>(descriptorList(1)),
  },
  { description: 'What is to be limited.' },
)

const status = Type.Object(
  {
    ...commonStatus(),
    rules: Type.Optional(
      Type.Integer({
        format: 'int64',
        minimum: 0,
        description:
          'How many limits are in force; those of the last good version while the present one is wrong.',
      }),
    ),
    ...feedStatus('limits'),
  },
  { description: 'How far the operator got. Written by the operator only.' },
)

export const rateLimitConfigKind: ResourceKind = {
  kind: 'RateLimitConfig',
  version: 'v1alpha1',
  plural: 'ratelimitconfigs',
  singular: 'ratelimitconfig',
  shortNames: ['rlc'],
  description: 'The rate limits of one domain, which the rate limit decision service enforces.',
  spec,
  status,
  columns: [
    {
      name: 'Domain',
      type: 'string',
      jsonPath: '.spec.domain',
      description: 'The domain that callers name.',
    },
    { name: 'Rules', type: 'integer', jsonPath: '.status.rules', description: 'The limits in force.' },
    ...feedColumns,
  ],
}
