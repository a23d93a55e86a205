import type { JsonObject } from '@tollway/chassis/json.ts'
import { matchFields, maxValueLength, ruleFlags } from '@tollway/ratelimit/rules/fields.ts'
import Type, { type Static } from 'typebox'
import { costlyRulesOfMember, problemIf, rulesOfMember, rulesOfRateLimit } from './limit-rules.ts'
import {
  fieldSchemas,
  limitsSchema,
  maxNameLength,
  maxReplaces,
  rateLimitSchema,
  withRulesOfLevel,
} from './limit-schema.ts'
import { rulesOfMatch } from './match-rules.ts'
import { feedColumns, type ResourceKind } from './resource-kind.ts'
import { commonStatus, feedStatus } from './resource-status.ts'
import { type DeepReadonly, type PolicyRule, type Schema, typed } from './schema.ts'

/** The limits of the fields; lengths are in characters. */
export const rateLimitConfigLimits = {
  maxNameLength,
  maxReplaces,
  maxDomainLength: 253,
  /** The number of levels of descriptors, including the top one. */
  maxDescriptorLevels: 8,
  /**
   * The number of descriptors in one list. All lists of a resource together are limited by `maxStoredBytes`.
   */
  maxSiblings: 10_000,
  maxKeyLength: 256,
  maxValueLength,
  maxMetadataFields: 64,
} as const

const limits = rateLimitConfigLimits

/** The only limit of a descriptor: either `unlimited`, or a `unit` and its `requestsPerUnit`. */
export type RateLimit = DeepReadonly<Static<ReturnType<typeof rateLimitSchema>>>

export type LimitOfList = NonNullable<Descriptor['limits']>[number]

/**
 * A descriptor: a rule, or only the parent of other rules. A validated one always has a `value`, which may be
 * empty.
 */
export interface Descriptor extends DescriptorFields {
  readonly descriptors?: readonly Descriptor[]
}

export type RateLimitConfigSpec = Readonly<Static<typeof spec>>

type DescriptorFields = {
  readonly [Name in keyof WrittenFields]: Name extends 'metadata'
    ? JsonObject
    : DeepReadonly<WrittenFields[Name]>
}
type WrittenFields = Static<ReturnType<typeof descriptorSchema>>

const oneKindOfLimits: PolicyRule = {
  cel: {
    rule: '!has(self.rateLimit) || !has(self.limits)',
    message: 'set either rateLimit or limits, not both',
  },
  inPolicy: ['self.?rateLimit.hasValue() <= !self.?limits.hasValue()'],
  judge: ({ rateLimit, limits }) =>
    problemIf(
      rateLimit !== undefined && limits !== undefined,
      'limits',
      'is not allowed beside rateLimit; leave out one of the two',
    ),
}

const ownRules = [...rulesOfMatch, oneKindOfLimits] as const

export interface DescriptorRule {
  /**
   * What `self` means in the rule: with '' the descriptor itself, with `rateLimit` its limit, with
   * `limits[*]` each of its limits.
   */
  readonly field: '' | 'rateLimit' | 'limits[*]'
  readonly rule: PolicyRule
  /** The first level for which the policy has the rule; for the levels above, the definition has it. */
  readonly fromLevel: 1 | 2
}

export const rulesOfDescriptors: readonly DescriptorRule[] = [
  ...ownRules.map(rule => ({ field: '' as const, rule, fromLevel: 2 as const })),
  ...rulesOfRateLimit.map(rule => ({ field: 'rateLimit' as const, rule, fromLevel: 2 as const })),
  ...rulesOfMember.map(rule => ({ field: 'limits[*]' as const, rule, fromLevel: 2 as const })),
  ...costlyRulesOfMember.map(rule => ({ field: 'limits[*]' as const, rule, fromLevel: 1 as const })),
]

/** Returns the schema of a descriptor without its field `descriptors`, which `descriptorList` adds. */
function descriptorSchema(level: number) {
  return Type.Object(
    {
      key: Type.String({
        minLength: 1,
        maxLength: limits.maxKeyLength,
        description:
          'The key of the request entry that this descriptor matches. Case-sensitive. A request is matched ' +
          'level by level: its first entry with the descriptors of the first list, its second entry with the nested ' +
          'descriptors of the match, and so on. The limit of the descriptor that matches its last entry applies.',
      }),
      value: Type.Optional(
        Type.String({
          default: '',
          maxLength: limits.maxValueLength,
          description:
            'The value of the request entry that this descriptor matches. Case-sensitive. A * matches ' +
            'any number of characters. If the value is empty or not set, every value matches, and each has a ' +
            'separate counter. An exact value takes precedence over a wildcard, and a wildcard over no value. With ' +
            'match, it is not compared with the request: it is the name of the rule.',
        }),
      ),
      ...fieldSchemas(matchFields),
      rateLimit: Type.Optional(rateLimitSchema(level)),
      limits: Type.Optional(limitsSchema(level)),
      ...fieldSchemas(ruleFlags),
      metadata: Type.Optional(
        typed<JsonObject>({
          type: 'object',
          maxProperties: limits.maxMetadataFields,
          'x-kubernetes-preserve-unknown-fields': true,
          description:
            'Arbitrary data that the service returns as dynamic metadata if this rule matched and allowed the ' +
            'request. It requires the setting RESPONSE_DYNAMIC_METADATA=true. An unlimited rule returns none.',
        }),
      ),
    },
    {
      ...withRulesOfLevel(level, ownRules),
      description:
        'A match of one entry of a request. The key and value of a descriptor are unique in its list.',
    },
  )
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
        ? 'The rules of the domain. An empty list sets no limit.'
        : `The descriptors for the next entry of a request, with at most ${maxDescriptorLevels} levels.`,
    items: { ...item, properties: { ...item.properties, descriptors: below } },
  }
}

/**
 * The schema of `descriptors` on the last level, where the list must be empty. If the field did not exist, an
 * API server without strict validation would drop it silently, and the parent of rules would become a rule
 * itself.
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
          message: 'domain cannot be changed; create a new resource for another domain',
        },
      ],
      description:
        'The domain in the requests of callers. It belongs to the oldest resource with this domain. Immutable.',
    }),
    descriptors: typed<readonly Descriptor[]>(descriptorList(1)),
    allOrNothing: Type.Optional(
      Type.Boolean({
        description:
          'A request with several descriptors is counted by all of their limits or, if one of them rejects it, only ' +
          'by those with countRejected. Requires all counters in one place: in memory, or in a Redis with one main ' +
          'instance.',
      }),
    ),
  },
  { description: 'The domain and its limits.' },
)

const status = Type.Object(
  {
    ...commonStatus(),
    rules: Type.Optional(
      Type.Integer({
        format: 'int64',
        minimum: 0,
        description:
          'The number of limits in force. While the current version is invalid, they are the limits of the last valid ' +
          'version.',
      }),
    ),
    ...feedStatus('limits'),
  },
  { description: 'The observed state. Only the operator writes it.' },
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
      description: 'The domain in the requests of callers.',
    },
    {
      name: 'Rules',
      type: 'integer',
      jsonPath: '.status.rules',
      description: 'The number of limits in force.',
    },
    ...feedColumns,
  ],
}
