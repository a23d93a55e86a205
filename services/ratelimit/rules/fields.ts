import { oncePerObject } from '@tollway/chassis/once-per-object.ts'
import { networkForm } from './address.ts'
import { weekdays } from './calendar.ts'

/**
 * The fields of rules as data, except those that say what a rule matches and how much it allows. The types
 * below, the schema of resources, validation, the messages of the feed, the compiled rules, the features that
 * pods must have, and the reference page follow from these tables. Conditions between several fields are
 * checked by code: `validate.ts` for pods, `crds/rate-limit` for the API server.
 */

/**
 * A field, by the kind of its value. A field that is left out is absent in memory and in resources, and is 0,
 * false or an empty message on the wire. It has the same name on the wire, except for an inverted `Flag`.
 */
export type RuleField = Flag | Count | Choice | Text | Texts | Group

interface Described {
  /** What the reference page and the schema of resources say about the field. */
  readonly description: string
  readonly required?: true
}

/** True or false. A flag whose default is true is sent inverted, under its name with `Off` at the end. */
interface Flag extends Described {
  readonly kind: 'flag'
  readonly default: boolean
}

/** A whole number of at least 1: on the wire, 0 means that the field is left out. */
interface Count extends Described {
  readonly kind: 'count'
  readonly maximum: number
}

/**
 * One of several words, which are numbers on the wire. The first word is 0 if it is the default, otherwise 1.
 */
interface Choice<Word extends string = string> extends Described {
  readonly kind: 'choice'
  readonly words: readonly Word[]
  readonly default?: Word
}

export interface TextForm {
  /** In characters. */
  readonly maxLength: number
  readonly pattern?: string
  /** What a text of the pattern is, in words, for a message. */
  readonly form?: string
}

/** A text that is not empty. */
interface Text extends Described, TextForm {
  readonly kind: 'text'
}

/** A list of texts, none of which is empty. An empty list is the same as none. */
interface Texts extends Described, TextForm {
  readonly kind: 'texts'
  readonly maxItems: number
}

/**
 * A map with fields of its own, which is a message on the wire. An unknown field in that message is always
 * rejected, whatever its number.
 */
interface Group extends Described {
  readonly kind: 'group'
  readonly fields: Readonly<Record<string, Exclude<RuleField, Group>>>
}

export type FieldTable = Readonly<Record<string, RuleField>>

/** The type of a field's value in memory. */
export type ValueOf<F extends RuleField> = F extends Flag
  ? boolean
  : F extends Count
    ? number
    : F extends Choice<infer Word>
      ? Word
      : F extends Text
        ? string
        : F extends Texts
          ? readonly string[]
          : F extends Group
            ? ValuesOf<F['fields']>
            : never

type RequiredNames<T extends FieldTable> = {
  [Name in keyof T]: T[Name] extends { readonly required: true } ? Name : never
}[keyof T]

/** The type of a table's values in memory. Fields that are not required may be left out. */
export type ValuesOf<T extends FieldTable> = {
  readonly [Name in RequiredNames<T>]: ValueOf<T[Name]>
} & {
  readonly [Name in Exclude<keyof T, RequiredNames<T>>]?: ValueOf<T[Name]>
}

/**
 * What rules can do beyond those of envoyproxy/ratelimit, as far as this version enforces it. A pod lists
 * these names in the node metadata of the feed, and the operator sends a domain only to pods that list every
 * feature that the domain needs. Versions exchange the names, so they never change.
 */
export const features = [
  'windows',
  'calendar',
  'algorithms',
  'limits',
  'allOrNothing',
  'headers',
  'countRejected',
  'match',
  'groupBy',
  'concurrency',
  'leases',
  'quota',
] as const

export type Feature = (typeof features)[number]

/** A field of a limit that envoyproxy/ratelimit does not have. */
type LimitField = RuleField & {
  /** The feature that a pod must have to enforce the field. */
  readonly feature: Feature
  /** Whether the field is allowed for an unlimited rule; left out for a field that is rejected there. */
  readonly forUnlimited?: true
}

/**
 * `FixedWindow` counts the requests since the window began. `SlidingWindow` also counts the part of the
 * previous window that is less than one window ago. `TokenBucket` admits `burst` requests at once, and
 * refills by `requestsPerUnit` in each window. `Concurrency` counts the requests that run at the same time.
 */
export const algorithms = ['FixedWindow', 'SlidingWindow', 'TokenBucket', 'Concurrency'] as const

export type Algorithm = (typeof algorithms)[number]

/**
 * `Exact` asks the counters about each request. With `Leased`, a process takes hits of a busy counter ahead of
 * their requests.
 */
export const countings = ['Exact', 'Leased'] as const

export const maxRequestsPerUnit = 0xffffffff
const maxUnitMultiplier = 1_000_000
const maxLeaseSeconds = 86_400

/**
 * `Calls` decides each request in a call of its proxy. `Quota` also gives each proxy a share of the limit, with which
 * it decides by itself.
 */
export const deliveries = ['Calls', 'Quota'] as const

/** The fields of a limit that envoyproxy/ratelimit does not have, in the order of the schema. */
export const limitFields = {
  algorithm: {
    kind: 'choice',
    words: algorithms,
    default: 'FixedWindow',
    feature: 'algorithms',
    description:
      'The algorithm that counts requests. FixedWindow, the default, counts the requests since the window ' +
      'began. SlidingWindow also counts the part of the previous window that is less than one window ' +
      'ago. TokenBucket allows burst requests at once, and refills by requestsPerUnit in each window. ' +
      'Concurrency allows maxConcurrent requests at the same time. ' +
      'SlidingWindow and TokenBucket count only requests that they allow, unless countRejected is true.',
  },
  burst: {
    kind: 'count',
    maximum: maxRequestsPerUnit,
    feature: 'algorithms',
    description: 'The size of the TokenBucket in requests. The default is requestsPerUnit.',
  },
  unitMultiplier: {
    kind: 'count',
    maximum: maxUnitMultiplier,
    feature: 'windows',
    description:
      'The number of units in a window. The default is 1. With unit second and 15, requestsPerUnit requests ' +
      'are allowed in 15 seconds. Windows of a calendar are counted from 1970.',
  },
  calendar: {
    kind: 'group',
    feature: 'calendar',
    description:
      'Aligns windows to the local calendar instead of the Unix epoch: a window begins at the first instant of ' +
      'its local date. Requires the algorithm FixedWindow, and the unit day, week, month or year.',
    fields: {
      timeZone: {
        kind: 'text',
        required: true,
        maxLength: 64,
        pattern: '^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$',
        description: 'A name of the IANA time zone database, such as Europe/Copenhagen or UTC.',
      },
      anchorMonth: {
        kind: 'count',
        maximum: 12,
        description:
          'The first month of a year, from 1 (January, the default). With unit month and a unitMultiplier, it is the ' +
          'first month of a window.',
      },
      anchorDay: {
        kind: 'count',
        maximum: 31,
        description:
          'The first day of a month or a year. The default is 1. A month without this day begins on its last day.',
      },
      anchorWeekday: {
        kind: 'choice',
        words: weekdays,
        description: 'The first day of a week. The default is Monday.',
      },
    },
  },
  maxConcurrent: {
    kind: 'count',
    maximum: maxRequestsPerUnit,
    feature: 'concurrency',
    description:
      'The number of requests that may run at the same time. Required with the algorithm Concurrency, which has no ' +
      'unit and no requestsPerUnit: an allowed request holds its hits until its caller gives them back ' +
      '(is_negative_hits), or until leaseSeconds are over.',
  },
  leaseSeconds: {
    kind: 'count',
    maximum: maxLeaseSeconds,
    feature: 'concurrency',
    description:
      'The longest time in seconds for which a request holds its hits if its caller does not give them back. ' +
      'Required with the algorithm Concurrency. Set it above the timeout of requests.',
  },
  headers: {
    kind: 'flag',
    default: true,
    feature: 'headers',
    forUnlimited: true,
    description: 'Whether response headers contain the limit. The default is true.',
  },
  countRejected: {
    kind: 'flag',
    default: false,
    feature: 'countRejected',
    description:
      'Whether the limit also counts rejected requests: a TokenBucket then owes more than its burst, and a window ' +
      'has more than requestsPerUnit. Set it if costs are reported after their requests, because the limit ' +
      'otherwise loses a cost that exceeds what is left. The default is false. A FixedWindow in rateLimit counts ' +
      'rejected requests anyway, unless allOrNothing is true.',
  },
  counting: {
    kind: 'choice',
    words: countings,
    default: 'Exact',
    feature: 'leases',
    description:
      'How pods count. Exact, the default, asks the backend about each request. With Leased, a pod takes the requests ' +
      'of 10 to 50 ms at once from a busy counter, and decides them by itself: less work and no wait, and never more ' +
      'than the limit. Near the limit, what other pods have taken may be rejected here, until they return it after ' +
      'about a second. Requires the algorithm FixedWindow or TokenBucket, without countRejected. Limits of one list are ' +
      'leased only if all of them are Leased.',
  },
  delivery: {
    kind: 'choice',
    words: deliveries,
    default: 'Calls',
    feature: 'quota',
    description:
      'How proxies learn what the limit allows. Calls, the default, decides each request in a call. Quota also gives each ' +
      'proxy that reports its use (envoy.service.rate_limit_quota.v3) a share of the limit, with which it decides by ' +
      'itself. Requires a FixedWindow or TokenBucket without a calendar that allows at least one request a second, in ' +
      'rateLimit, without quotaMode.',
  },
} as const satisfies Readonly<Record<string, LimitField>>

/**
 * The fields of a member of `limits`, which has flags of its own. The limit in `rateLimit` uses the flags of
 * its rule.
 */
export const memberFields = {
  ...limitFields,
  shadowMode: {
    kind: 'flag',
    default: false,
    description: 'Tests the limit: it counts requests and updates the statistics, but rejects none.',
  },
  quotaMode: {
    kind: 'flag',
    default: false,
    description: 'Makes the limit a quota, as quotaMode of a descriptor does.',
  },
} as const satisfies FieldTable

/**
 * The flags of a rule. YAML files have the same flags in snake_case. A rule in memory always has all of them.
 */
export const ruleFlags = {
  shadowMode: {
    kind: 'flag',
    default: false,
    description:
      'Tests the rule: it counts requests and updates the statistics, but its answer is always OK.',
  },
  detailedMetric: {
    kind: 'flag',
    default: false,
    description:
      'The names of statistics contain the values in requests instead of the rule. Each value creates new ' +
      'statistics, so use it for keys with few values only.',
  },
  quotaMode: {
    kind: 'flag',
    default: false,
    description:
      'Makes the rule a quota. Quotas reject a call only if all quotas that the call matched are over their ' +
      'limit. Any other rule over its limit rejects the call alone.',
  },
  valueToMetric: {
    kind: 'flag',
    default: false,
    description:
      'The names of statistics contain the value in the request, for this level only. Each value creates new ' +
      'statistics. detailedMetric takes precedence.',
  },
  shareThreshold: {
    kind: 'flag',
    default: false,
    description:
      'All values that match the rule share one counter, instead of one for each value. Requires match, or a ' +
      'value with a *.',
  },
} as const satisfies Readonly<Record<string, Flag>>

export const maxValueLength = 1024
/** Less than the length of a value, since an API server estimates a high cost for regular expressions in CEL. */
const maxRegexLength = 768
/** The most texts in one list, and the most patterns of one kind on one key of a level. */
export const maxPatterns = 10_000
/** Texts of addresses have at most 45 characters, and a prefix length 4. */
const maxNetworkLength = 49
const maxPrefixIpv4 = 32
const maxPrefixIpv6 = 128

/** The fields of a rule that say which values it matches, and which of them have one counter together. */
export const matchFields = {
  match: {
    kind: 'group',
    feature: 'match',
    description:
      'Matches more than one value. Exactly one of the fields is set. With match, value is only the name of the rule, in ' +
      'statistics and in lists. If several rules match, the order is: exact, oneOf, the longest cidr, the longest ' +
      'prefix, the longest suffix, the first regex, the first value with a *, no value. Each value has a ' +
      'separate counter, unless shareThreshold or groupBy is set.',
    fields: {
      exact: {
        kind: 'text',
        maxLength: maxValueLength,
        description: 'This value. A * has no special meaning.',
      },
      oneOf: {
        kind: 'texts',
        maxItems: maxPatterns,
        maxLength: maxValueLength,
        description: 'Each of these values. If several rules list a value, the first rule matches.',
      },
      prefix: {
        kind: 'text',
        maxLength: maxValueLength,
        description: 'All values that begin with this text.',
      },
      suffix: {
        kind: 'text',
        maxLength: maxValueLength,
        description: 'All values that end with this text.',
      },
      cidr: {
        kind: 'texts',
        maxItems: maxPatterns,
        maxLength: maxNetworkLength,
        pattern: '^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$',
        form: networkForm,
        description:
          'All IPv4 and IPv6 addresses in these networks, such as 10.0.0.0/8 and 2001:db8::/32. An IPv4-mapped IPv6 ' +
          'address is the IPv4 address. The statistic not_an_address counts values that are no addresses.',
      },
      regex: {
        kind: 'text',
        maxLength: maxRegexLength,
        description:
          'All values that this regular expression in the syntax of RE2 matches as a whole: begin and end with .* to find ' +
          'a part. Case-sensitive, unless it begins with (?i).',
      },
    },
  },
  groupBy: {
    kind: 'group',
    feature: 'groupBy',
    description:
      'Counts the addresses of a network together. Requires match.cidr, or neither match nor value. A value that is no ' +
      'address has a counter of its own.',
    fields: {
      ipv4Prefix: {
        kind: 'count',
        maximum: maxPrefixIpv4,
        description: 'The prefix length of IPv4 networks, such as 24. The default is 32: each address.',
      },
      ipv6Prefix: {
        kind: 'count',
        maximum: maxPrefixIpv6,
        description: 'The prefix length of IPv6 networks, such as 64. The default is 128: each address.',
      },
    },
  },
} as const satisfies Readonly<Record<string, RuleField & { readonly feature: Feature }>>

export type LimitFields = ValuesOf<typeof limitFields>
export type MatchFields = ValuesOf<typeof matchFields>
/** How a rule matches values other than by `value`. */
export type RuleMatch = NonNullable<MatchFields['match']>
export type GroupBy = NonNullable<MatchFields['groupBy']>
export type MatchKind = keyof RuleMatch

/** The kinds of `match`, from the one that takes precedence over all others of its key. */
export const matchPrecedence = [
  'exact',
  'oneOf',
  'cidr',
  'prefix',
  'suffix',
  'regex',
] as const satisfies readonly MatchKind[]

export type MemberFields = ValuesOf<typeof memberFields>
export type RuleFlags = Required<ValuesOf<typeof ruleFlags>>
export type CalendarAnchors = NonNullable<LimitFields['calendar']>

/** Returns whether a limit counts what runs at the same time; it has no unit then, and no window. */
export function isConcurrency({ algorithm }: { readonly algorithm?: unknown }): boolean {
  return algorithm === 'Concurrency'
}

/**
 * The algorithms of which a process can take hits ahead of their requests. A sliding window counts each hit at
 * the time of its request, and a hold belongs to its request.
 */
export const leasableAlgorithms: readonly Algorithm[] = ['FixedWindow', 'TokenBucket']

/** The algorithms whose limits can be shared among proxies as token buckets. */
export const algorithmsOfQuota: readonly string[] = [
  'FixedWindow',
  'TokenBucket',
] satisfies readonly Algorithm[]

/** The names of the fields that an unlimited rule cannot have. */
export const fieldsOfLimited = listNames(limitFields).filter(name => !('forUnlimited' in limitFields[name]))

/**
 * Returns the fields of a table with their names. The list is made once for each table, not for each of
 * 100,000 rules.
 */
export const entriesOf = oncePerObject((table: FieldTable) => Object.entries(table))

export function listNames<T extends object>(table: T): readonly (keyof T & string)[] {
  return Object.keys(table) as (keyof T & string)[]
}

const namesOfFlags = listNames(ruleFlags)

/** Returns all flags of a rule, with the values that `read` returns. */
export function toRuleFlags(read: (name: keyof RuleFlags) => boolean): RuleFlags {
  const flags: Partial<Record<keyof RuleFlags, boolean>> = {}
  for (const name of namesOfFlags) flags[name] = read(name)
  return flags as RuleFlags
}

/** Returns whether a value has all flags of a rule, each as a boolean. */
export function hasRuleFlags(value: { readonly [Name in keyof RuleFlags]?: unknown }): boolean {
  return namesOfFlags.every(name => typeof value[name] === 'boolean')
}

/** Returns only the fields of a table that have a value. */
export function givenFields<T extends FieldTable>(table: T, values: ValuesOf<T>): ValuesOf<T> {
  return pickFields(table, values, (_, value) => value !== undefined)
}

/** Returns only the fields of a table that have a value other than the default. */
export function effectiveFields<T extends FieldTable>(table: T, values: ValuesOf<T>): ValuesOf<T> {
  return pickFields(table, values, isEffective)
}

export function isEffective(field: RuleField, value: unknown): boolean {
  return value !== undefined && !('default' in field && value === field.default)
}

function pickFields<T extends FieldTable>(
  table: T,
  values: ValuesOf<T>,
  isPicked: (field: RuleField, value: unknown) => boolean,
): ValuesOf<T> {
  const picked: Record<string, unknown> = {}
  if (!hasAny(table, values)) return picked as ValuesOf<T>
  for (const [name, field] of entriesOf(table)) {
    const value = (values as Readonly<Record<string, unknown>>)[name]
    if (isPicked(field, value)) picked[name] = value
  }
  return picked as ValuesOf<T>
}

/** A problem of a limit or of a list of limits. */
export interface LimitProblem {
  /** The path of the field below the limit or the list of limits: `calendar.anchorDay`, `[0].unlimited`. */
  readonly path: string
  readonly message: string
  readonly allowed: string
}

const noProblems: readonly LimitProblem[] = []

/** The names of a table's fields, and whether any of the fields is required. */
const indexFields = oncePerObject((table: FieldTable) => ({
  names: new Set(Object.keys(table)),
  hasRequired: Object.values(table).some(({ required }) => required),
}))

/**
 * Returns whether any field of the table is given. Most of 100,000 limits have none of the fields, so this goes
 * through the few names in `values` and not through the table.
 */
function hasAny(table: FieldTable, values: object): boolean {
  const { names } = indexFields(table)
  for (const name in values) if (names.has(name)) return true
  return false
}

/**
 * Finds required values that are missing, and values of a wrong kind or out of bounds, in the order of the
 * table.
 */
export function checkFields(table: FieldTable, values: object): readonly LimitProblem[] {
  if (!indexFields(table).hasRequired && !hasAny(table, values)) return noProblems
  let problems: LimitProblem[] | undefined
  for (const [name, field] of entriesOf(table)) {
    const value = (values as Readonly<Record<string, unknown>>)[name]
    if (value === undefined && !field.required) continue
    if (field.kind === 'group' && typeof value === 'object' && value !== null) {
      const inside = checkFields(field.fields, value)
      if (inside.length === 0) continue
      problems ??= []
      problems.push(...inside.map(problem => ({ ...problem, path: `${name}.${problem.path}` })))
    } else if (!isAllowed(field, value)) {
      problems ??= []
      const shown = typeof value === 'object' ? 'this value' : `${value}`
      problems.push({ path: name, message: `${name} cannot be ${shown}`, allowed: describeAllowed(field) })
    }
  }
  return problems ?? noProblems
}

function isAllowed(field: RuleField, value: unknown): boolean {
  switch (field.kind) {
    case 'flag':
      return typeof value === 'boolean'
    case 'count':
      return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= field.maximum
    case 'choice':
      return field.words.some(word => word === value)
    case 'text':
      return typeof value === 'string'
    case 'texts':
      return (
        Array.isArray(value) &&
        value.length <= field.maxItems &&
        value.every(text => isText(text, field.maxLength))
      )
    case 'group':
      return false
  }
}

function isText(value: unknown, maxLength: number): boolean {
  if (typeof value !== 'string' || value === '') return false
  return value.length <= maxLength || [...value].length <= maxLength
}

function describeAllowed(field: RuleField): string {
  switch (field.kind) {
    case 'flag':
      return 'true or false'
    case 'count':
      return `a whole number from 1 to ${field.maximum}`
    case 'choice':
      return `one of ${field.words.join(', ')}`
    case 'text':
      return 'a text'
    case 'texts':
      return `a list of at most ${field.maxItems} texts of 1 to ${field.maxLength} characters`
    case 'group':
      return 'a map'
  }
}
