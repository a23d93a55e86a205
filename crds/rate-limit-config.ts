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
import { type DeepReadonly, isFields, type PolicyRule, type Schema, typed } from './schema.ts'

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

/** A proxy that decides by its share of one limit does not know the other quotas of a request. */
const quotaAlone: PolicyRule = {
  cel: {
    rule:
      '!has(self.quotaMode) || !self.quotaMode || !has(self.rateLimit) || !has(self.rateLimit.delivery) || ' +
      "self.rateLimit.delivery != 'Quota'",
    message: 'quotaMode excludes delivery: Quota, with which a proxy decides by one limit alone',
  },
  policyGuard: 'self.?quotaMode.orValue(false)',
  inPolicy: ["self.?rateLimit.?delivery.orValue('Calls') == 'Calls'"],
  judge: ({ quotaMode, rateLimit }) =>
    problemIf(
      quotaMode === true && isFields(rateLimit) && rateLimit['delivery'] === 'Quota',
      'quotaMode',
      'true is not allowed with delivery: Quota, with which a proxy decides by one limit alone',
    ),
}

const ownRules = [...rulesOfMatch, oneKindOfLimits, quotaAlone] as const

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

function count(description: string) {
  return Type.Integer({ format: 'int64', minimum: 0, description })
}

/** Long keys and values make longer names of rules, of which the status has the start. */
export const maxRuleNameLength = 4096

function quotaStatus() {
  const rule = Type.Object(
    {
      rule: Type.String({
        maxLength: maxRuleNameLength,
        description: 'The name of the rule, such as checkout.user.',
      }),
      buckets: count('The buckets that proxies have. An estimate if a process has more than 64.'),
      assignedPercent: Type.Integer({
        minimum: 0,
        maximum: 100,
        description: 'The part of the limits of these buckets that proxies and calls may use.',
      }),
      atOnceAtMost: count(
        'The most requests of a bucket that all proxies together admit at once, from full token buckets, before they ' +
          'keep to the rate of the limit.',
      ),
    },
    { description: 'How proxies share the limit of a rule.' },
  )
  return Type.Object(
    {
      members: Type.Optional(count('The proxies that share limits. Missing if no process reports.')),
      rules: Type.Optional(
        Type.Array(rule, {
          maxItems: 10,
          'x-kubernetes-list-type': 'atomic',
          description: 'The rules with the most buckets, at most 10.',
        }),
      ),
      converged: Type.Optional(
        Type.Boolean({
          description:
            'Whether each proxy has had its share in 95 % of the buckets at some time in the last minute.',
        }),
      ),
      lastConvergence: Type.Optional(
        Type.String({
          format: 'date-time',
          maxLength: 64,
          description:
            'When the shares last came to match the demand, as the operator that leads has seen it.',
        }),
      ),
      missingPods: Type.Optional(
        Type.Array(Type.String({ maxLength: 253, description: 'The name of a pod.' }), {
          maxItems: 10,
          'x-kubernetes-list-type': 'atomic',
          description: 'Pods that do not report: their proxies are not counted here. At most 10.',
        }),
      ),
    },
    {
      description:
        'How proxies share the limits of rules with delivery: Quota. Written when something of weight has changed, ' +
        'at most every 30 seconds.',
    },
  )
}

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
    quota: Type.Optional(quotaStatus()),
    leases: Type.Optional(
      Type.Object(
        {
          perProcess: count('The most requests that a process takes ahead, of one counter.'),
          total: count(
            'The most that all processes together have taken and not used, so that others reject them too early.',
          ),
        },
        {
          description:
            'What processes take ahead for limits with counting: Leased; never more than the limit.',
        },
      ),
    ),
  },
  { description: 'The observed state. Only the operator writes it.' },
)

/** The fields about limits that proxies or processes share. */
export type SharingStatus = DeepReadonly<Pick<Static<typeof status>, 'quota' | 'leases'>>

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
