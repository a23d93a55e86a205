import { compileDomain, type RuleOptions } from './compile-domain.ts'
import {
  type DomainTable,
  field,
  hasFlag,
  none,
  readText,
  readWord,
  recordCount,
  ruleFlag,
  unitShift,
} from './domain-table.ts'
import type { MatchFields } from './fields.ts'
import { createLimit, type Limit, type LimitSettings, toMemberSettings, toWindow } from './limit.ts'
import { type RateLimitDomain, toFinalKey } from './model.ts'
import { sanitizeStatName } from './names.ts'
import { compileRegex, type Regex } from './regex.ts'
import { units } from './units.ts'
import { compileWildcard, type Wildcard } from './wildcard.ts'

/** Compiled configurations, against which requests are matched. `S` holds the statistics of a limit. */
export interface RuleSet<S> {
  /**
   * The domains by their names. A missing domain is unknown, which differs from a domain in which nothing
   * matches.
   */
  readonly domains: ReadonlyMap<string, Domain<S>>
}

/** The rules of one domain, and the objects that requests have created from them. */
export interface Domain<S> {
  readonly table: DomainTable
  /** The rules with a limit that requests have matched so far, by record. */
  readonly known: (KnownRule<S> | undefined)[]
  /** The compiled wildcards, by the record of their rule. */
  readonly wildcards: Map<number, Wildcard>
  /** The compiled regular expressions, by the record of their rule. */
  readonly regexes: ReadonlyMap<number, Regex>
  /** The counters of values that are no addresses, by the head of the networks that they are compared with. */
  readonly notAddresses: Map<number, { value: number }>
  /**
   * Creates the statistics of a limit with this `statName`. Called once for each limit, at its first request.
   */
  attach(statName: string): S
  /**
   * Creates the counter of values that are no addresses, for all rules that have networks for a key of a level.
   * Left out where such values are not counted.
   */
  attachNotAddress?(statNames: readonly string[]): { value: number }
}

/** A rule with a limit that a request has matched. */
export interface KnownRule<S> {
  readonly limit: Limit<S>
  /**
   * The common part of the cache keys of all requests that match this rule: `domain_key_value_` for a rule
   * with a value, `domain_key_` for one with any value. Empty if the rule is a wildcard, or if one above it
   * is a wildcard or has any value.
   */
  readonly baseKey: string
  /** Whether the limit and the baseKey are the same for every request that matches this rule. */
  readonly isFixed: boolean
  /**
   * The statistics of the limits that were named after requests (`detailed_metric`, `value_to_metric`): one
   * set for the limit, or one for each of its members. Undefined before the first such request.
   */
  named: Set<S>[] | undefined
}

interface CompileOptions<S> {
  /**
   * The value that was passed to `validateDomains`. Configurations of one domain are merged in the order
   * given.
   */
  readonly mergeDomainConfigs: boolean
  /**
   * Creates the statistics of a limit with this `statName`, at its first request. Two limits can have the
   * same `statName`.
   */
  attach(statName: string): S
}

/**
 * Compiles configurations for matching. A match takes a few lookups, however many rules there are, and a test
 * of each wildcard rule of the key. Requires that `validateDomains` found no problem in `configs`. Throws an
 * Error for a second configuration of a domain without `mergeDomainConfigs`.
 */
export function compile<S>(
  configs: readonly RateLimitDomain[],
  { mergeDomainConfigs, attach }: CompileOptions<S>,
): RuleSet<S> {
  const domains = new Map<string, Domain<S>>()
  for (const [domain, parts] of Map.groupBy(configs, config => config.domain)) {
    if (parts.length > 1 && !mergeDomainConfigs) {
      throw new Error(`compile: two configurations of the domain '${domain}' were not rejected`)
    }
    domains.set(domain, openDomain(compileDomain(domain, parts), { attach }))
  }
  return { domains }
}

export function openDomain<S>(
  table: DomainTable,
  { attach, attachNotAddress }: Pick<Domain<S>, 'attach' | 'attachNotAddress'>,
): Domain<S> {
  return {
    table,
    known: Array(recordCount(table)),
    wildcards: new Map(),
    regexes: table.hasMatches ? compileRegexes(table) : noRegexes,
    notAddresses: new Map(),
    attach,
    ...(attachNotAddress && { attachNotAddress }),
  }
}

const noRegexes: ReadonlyMap<number, Regex> = new Map()

function compileRegexes(table: DomainTable): ReadonlyMap<number, Regex> {
  const regexes = new Map<number, Regex>()
  for (let record = 0; record < recordCount(table); record++) {
    // The other rules are not read: with 100,000 of them, that would stop the process for 0.2 s.
    if (!hasFlag(table, record, ruleFlag.hasRegex)) continue
    const regex = readMatchFields(table, record).match?.regex
    if (regex !== undefined) regexes.set(record, compileRegex(regex))
  }
  return regexes
}

function readOptions(table: DomainTable, record: number): RuleOptions {
  const options = readText(table, record, field.options)
  return options === '' ? noOptions : { ...noOptions, ...JSON.parse(options) }
}

/** A list of texts is shown with at most this many. */
const maxShownTexts = 3

/** Returns a text such as `cidr 10.0.0.0/8, 192.0.2.0/24; by ipv6Prefix 64`; empty for a rule with neither. */
function describeMatching({ match = {}, groupBy = {} }: MatchFields): string {
  const ways = Object.entries(match).map(([kind, found]) => {
    const texts: readonly string[] = typeof found === 'string' ? [found] : found
    const more = texts.length > maxShownTexts ? `, and ${texts.length - maxShownTexts} more` : ''
    return `${kind} ${texts.slice(0, maxShownTexts).join(', ')}${more}`
  })
  const lengths = Object.entries(groupBy).map(([name, length]) => `by ${name} ${length}`)
  return [...ways, ...lengths].join('; ')
}

const noOptions: RuleOptions = { replaces: [] }

/** Returns how a rule matches values other than by its value, and which of them it counts together. */
export function readMatchFields(table: DomainTable, record: number): MatchFields {
  const { match, groupBy } = readOptions(table, record)
  return { ...(match && { match }), ...(groupBy && { groupBy }) }
}

/**
 * Yields every limit, domain by domain, in the order of the configuration. A rule with several limits yields
 * each of them instead of itself.
 */
export function* listLimits({ domains }: RuleSet<unknown>): Generator<LimitSettings, undefined> {
  for (const { table } of domains.values()) {
    for (let record = 0; record < recordCount(table); record++) {
      if (!hasFlag(table, record, ruleFlag.hasLimit)) continue
      const settings = readSettings(table, record)
      if (settings.limits === undefined) yield settings
      else yield* settings.limits
    }
  }
  return undefined
}

/** Returns the rule of a record that has a limit. The rule is created at the first call. */
export function knownRule<S>(domain: Domain<S>, record: number): KnownRule<S> {
  const found = domain.known[record]
  if (found !== undefined) return found
  const { table } = domain
  const settings = readSettings(table, record)
  const isLiteral = hasFlag(table, record, ruleFlag.literal)
  const isOfOneValue = readWord(table, record, field.value) !== 0
  const isNamedByRequest = hasFlag(table, record, ruleFlag.detailedMetric | ruleFlag.valueToMetricInPath)
  const made: KnownRule<S> = {
    limit: createLimit(settings, domain.attach),
    baseKey: isLiteral ? readBaseKey(table, record) : '',
    isFixed: isLiteral && isOfOneValue && !isNamedByRequest,
    named: undefined,
  }
  domain.known[record] = made
  return made
}

function readSettings(table: DomainTable, record: number): LimitSettings {
  const flags = readWord(table, record, field.flags)
  const unit = units[flags >>> unitShift] ?? 'second'
  const { replaces, limits, match, groupBy, ...rare } = readOptions(table, record)
  const matching = describeMatching({ ...(match && { match }), ...(groupBy && { groupBy }) })
  const metadata = readText(table, record, field.metadata)
  const fullKey = readFullKey(table, record)
  const rule = {
    name: readText(table, record, field.name),
    fullKey,
    statName: sanitizeStatName(fullKey),
    ...toWindow(readWord(table, record, field.requestsPerUnit) >>> 0, unit, rare),
    ...rare,
    ...(matching !== '' && { matching }),
    unlimited: (flags & ruleFlag.unlimited) !== 0,
    shadowMode: (flags & ruleFlag.shadowMode) !== 0,
    quotaMode: (flags & ruleFlag.quotaMode) !== 0,
    replaces,
    metadata: metadata === '' ? undefined : JSON.parse(metadata),
  }
  return limits === undefined
    ? rule
    : { ...rule, limits: limits.map((one, index) => toMemberSettings(rule, one, index)) }
}

/** Returns `domain.key_value.key2_value2`, as configured. */
export function readFullKey(table: DomainTable, record: number): string {
  let text = ''
  for (let rule = record; rule !== none; rule = readWord(table, rule, field.parent)) {
    text = `.${toFinalKey(readKeyAndValue(table, rule))}${text}`
  }
  return table.domain + text
}

/** Returns the baseKey of a rule with the flag `literal`; see `KnownRule.baseKey`. */
function readBaseKey(table: DomainTable, record: number): string {
  let text = ''
  for (let rule = record; rule !== none; rule = readWord(table, rule, field.parent)) {
    const { key, value } = readKeyAndValue(table, rule)
    text = value === '' ? `${key}_${text}` : `${key}_${value}_${text}`
  }
  return `${table.domain}_${text}`
}

export function readKeyAndValue(
  table: DomainTable,
  record: number,
): { readonly key: string; readonly value: string } {
  return { key: readText(table, record, field.key), value: readText(table, record, field.value) }
}

/**
 * Returns the wildcard of a rule, or undefined if it has no `*`. As in envoyproxy/ratelimit, the pattern is
 * the rule's value or, if the `*` is in the key, key and value joined by `_`.
 */
export function findWildcard({ table, wildcards }: Domain<unknown>, record: number): Wildcard | undefined {
  const found = wildcards.get(record)
  if (found !== undefined) return found
  const { key, value } = readKeyAndValue(table, record)
  const pattern = key.includes('*') ? toFinalKey({ key, value }) : value
  if (!pattern.includes('*')) return undefined
  const made = compileWildcard(pattern)
  wildcards.set(record, made)
  return made
}

/** Yields the sibling rules of one level, in the configuration's order. */
export function* listRulesOfLevel(table: DomainTable, level: number): Generator<number, undefined> {
  for (let record = 0; record < recordCount(table); record++) {
    if (readWord(table, record, field.level) !== level) continue
    if (!hasFlag(table, record, ruleFlag.alias)) yield record
  }
  return undefined
}
