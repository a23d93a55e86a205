import { parseAddress, toNetwork } from './address.ts'
import {
  type Domain,
  findWildcard,
  type KnownRule,
  knownRule,
  type RuleSet,
  readFullKey,
  readKeyAndValue,
} from './compile.ts'
import {
  type DomainTable,
  field,
  findRecord,
  hasFlag,
  headField,
  headOfPatterns,
  none,
  readWord,
  ruleFlag,
  topLevel,
} from './domain-table.ts'
import type { Limit } from './limit.ts'
import { toFinalKey } from './model.ts'
import { sanitizeStatName } from './names.ts'
import { findLongestPattern, readPatternRule } from './patterns.ts'
import { matchesRegex } from './regex.ts'
import { type Unit, unitSeconds } from './units.ts'
import { matchesWildcard } from './wildcard.ts'

/** One key and value of a request's descriptor. */
export interface DescriptorEntry {
  readonly key: string
  readonly value: string
}

/** The limit that applies to a descriptor of a request, and the key of its counter. */
export interface Match<S> {
  readonly limit: Limit<S>
  /** The cache key without prefix and window: `domain_key_value_key2_value2_`. */
  readonly baseKey: string
}

/**
 * Returns the limit of a request's descriptor, as envoyproxy/ratelimit matches it. Returns undefined for an
 * unknown domain (see `rules.domains.has`), no match, a match at another depth, a placeholder and a
 * whitelisted descriptor.
 *
 * A limit with `detailed_metric` or `value_to_metric` is named after the request, and `attach` creates the
 * statistics for that name. Without `attach`, the limit has the statistics of its configured name.
 */
export function match<S>(
  rules: RuleSet<S>,
  domain: string,
  entries: readonly DescriptorEntry[],
  attach?: (statName: string) => S,
): Match<S> | undefined {
  const found = rules.domains.get(domain)
  if (found === undefined) return undefined
  const record = walk(found, entries, { counts: attach !== undefined })
  if (record === none || !hasFlag(found.table, record, ruleFlag.hasLimit)) return undefined
  return createMatch(found, record, entries, attach)
}

interface WalkOptions {
  /** Whether the entries are of a request that is counted, so that values that are no addresses count too. */
  readonly counts: boolean
  /** Gets each record that matches, even if a later entry has no rule. */
  readonly trail?: number[]
}

/**
 * Follows the entries down the levels of the domain, one level for each entry. Returns the record of the last
 * entry's rule, or `none` if any entry has no rule.
 */
export function walk(
  domain: Domain<unknown>,
  entries: readonly DescriptorEntry[],
  { counts, trail }: WalkOptions,
): number {
  const { table } = domain
  let level = topLevel
  let record = none
  for (const entry of entries) {
    if (level === 0) return none
    record = findRule(domain, level, entry, counts)
    if (record === none) return none
    trail?.push(record)
    level = readWord(table, record, field.below)
  }
  return record
}

/**
 * Returns the most specific rule of a level: the one with the exact value, else the best one with `match`, else
 * the first wildcard that matches, else the one for any value.
 */
function findRule(domain: Domain<unknown>, level: number, entry: DescriptorEntry, counts: boolean): number {
  const { table } = domain
  const { key, value } = entry
  const exact = value === '' ? none : findRecord(table, level, key, value)
  if (exact !== none)
    return hasFlag(table, exact, ruleFlag.alias) ? readWord(table, exact, field.next) : exact
  const matching = table.hasMatches ? findMatching(domain, level, entry, counts) : none
  if (matching !== none) return matching
  const wildcard = table.hasWildcards ? findFirstWildcard(domain, level, entry) : none
  return wildcard === none ? findRecord(table, level, key, '') : wildcard
}

/**
 * Returns the rule whose `match` has the longest network of the value, else the longest prefix, else the longest
 * suffix, else the first regular expression.
 */
function findMatching(
  domain: Domain<unknown>,
  level: number,
  { key, value }: DescriptorEntry,
  counts: boolean,
): number {
  const { table, regexes } = domain
  const head = findRecord(table, -level, key, headOfPatterns)
  if (head === none) return none
  const networks = readWord(table, head, headField.cidr)
  const prefixes = readWord(table, head, headField.prefix)
  const suffixes = readWord(table, head, headField.suffix)
  const end = readWord(table, head, headField.end)
  let found = none
  if (networks < prefixes) {
    const bits = parseAddress(value)
    if (bits !== undefined) found = findLongestPattern(table, networks, prefixes, bits, false)
    else if (counts) countNotAddress(domain, head)
  }
  if (found === none) found = findLongestPattern(table, prefixes, suffixes, value, false)
  if (found === none) found = findLongestPattern(table, suffixes, end, value, true)
  if (found !== none) return readPatternRule(table, found)
  for (
    let rule = readWord(table, head, field.next);
    rule !== none;
    rule = readWord(table, rule, field.next)
  ) {
    const regex = regexes.get(rule)
    if (regex !== undefined && matchesRegex(regex, value)) return rule
  }
  return none
}

function countNotAddress(domain: Domain<unknown>, head: number): void {
  let counter = domain.notAddresses.get(head)
  if (counter === undefined) {
    const { table } = domain
    const rules = new Set<number>()
    const end = readWord(table, head, headField.prefix)
    for (let index = readWord(table, head, headField.cidr); index < end; index++) {
      rules.add(readPatternRule(table, index))
    }
    const names = [...rules].map(rule => sanitizeStatName(readFullKey(table, rule)))
    counter = domain.attachNotAddress?.(names) ?? { value: 0 }
    domain.notAddresses.set(head, counter)
  }
  counter.value += 1
}

/**
 * Returns the first matching rule, in the order of the configuration, with a `*` in its value or in its key.
 */
function findFirstWildcard(domain: Domain<unknown>, level: number, { key, value }: DescriptorEntry): number {
  const inValue =
    key === '' ? none : findFirstMatching(domain, findRecord(domain.table, -level, key, ''), value)
  const keyRules = findRecord(domain.table, -level, '', '')
  if (keyRules === none) return inValue
  const inKey = findFirstMatching(domain, keyRules, `${key}_${value}`)
  return inValue === none || inKey === none ? Math.max(inValue, inKey) : Math.min(inValue, inKey)
}

/**
 * Returns the first matching rule in the list of wildcard rules with this head. Returns `none` for the head
 * `none`.
 */
function findFirstMatching(domain: Domain<unknown>, head: number, text: string): number {
  if (head === none) return none
  const { table } = domain
  for (
    let rule = readWord(table, head, field.next);
    rule !== none;
    rule = readWord(table, rule, field.next)
  ) {
    const wildcard = findWildcard(domain, rule)
    if (wildcard !== undefined && matchesWildcard(wildcard, text)) return rule
  }
  return none
}

/**
 * Returns the match of a descriptor's entries. `record` is what `walk` returned for them; its rule has a
 * limit.
 */
export function createMatch<S>(
  domain: Domain<S>,
  record: number,
  entries: readonly DescriptorEntry[],
  attach: ((statName: string) => S) | undefined,
): Match<S> {
  const rule = knownRule(domain, record)
  if (rule.isFixed) return rule
  const { table } = domain
  const { limit } = rule
  const baseKey =
    rule.baseKey === ''
      ? buildBaseKey(table, record, entries)
      : completeBaseKey(table, record, rule.baseKey, entries)
  const part = chooseNaming(table, record)
  if (part === undefined) return { limit, baseKey }
  let fullKey = ''
  visitFromLast(table, record, entries, (entry, above) => {
    fullKey = `.${part(table, above, entry)}${fullKey}`
  })
  fullKey = table.domain + fullKey
  const named = renameLimit(limit, fullKey, attach)
  if (attach !== undefined) recordNamed(rule, named)
  return { limit: named, baseKey }
}

/**
 * Keeps the statistics of a limit that is named after a request, so that the totals of its rule include them.
 */
function recordNamed<S>(rule: KnownRule<S>, { members, stats }: Limit<S>): void {
  rule.named ??= (members ?? [undefined]).map(() => new Set())
  if (members === undefined) rule.named[0]?.add(stats)
  else for (const [index, member] of members.entries()) rule.named[index]?.add(member.stats)
}

/**
 * Returns a copy of the limit with the key `fullKey`, and with the statistics of that name if `attach` is
 * given. The keys of its members begin with `fullKey`.
 */
function renameLimit<S>(
  limit: Limit<S>,
  fullKey: string,
  attach: ((statName: string) => S) | undefined,
): Limit<S> {
  const statName = sanitizeStatName(fullKey)
  const members = limit.members?.map((member, index) =>
    renameLimit(member, `${fullKey}.${member.name || index}`, attach),
  )
  const stats = members?.[0]?.stats ?? attach?.(statName) ?? limit.stats
  return { ...limit, fullKey, statName, stats, members }
}

type NamePart = (table: DomainTable, record: number, entry: DescriptorEntry) => string

/**
 * Returns how each level of a rule's key is named after the request; undefined if the configured key is kept.
 */
function chooseNaming(table: DomainTable, record: number): NamePart | undefined {
  if (hasFlag(table, record, ruleFlag.detailedMetric)) {
    return hasFlag(table, record, ruleFlag.sharesInPath) ? formatShared : formatDetailed
  }
  return hasFlag(table, record, ruleFlag.valueToMetricInPath) ? formatNamed : undefined
}

/**
 * Returns the baseKey of a request: the `baseKey` of the rule that it matches, to which the request's last
 * value is appended if the rule has any value.
 */
function completeBaseKey(
  table: DomainTable,
  record: number,
  baseKey: string,
  entries: readonly DescriptorEntry[],
): string {
  if (readWord(table, record, field.value) !== 0) return baseKey
  return `${baseKey}${entries[entries.length - 1]?.value}_`
}

function buildBaseKey(table: DomainTable, last: number, entries: readonly DescriptorEntry[]): string {
  let baseKey = `${table.domain}_`
  if (!hasFlag(table, last, ruleFlag.sharesInPath)) {
    for (const { key, value } of entries) baseKey += `${key}_${value}_`
    return baseKey
  }
  let tail = ''
  visitFromLast(table, last, entries, (entry, rule) => {
    tail = `${entry.key}_${toCountedValue(table, rule, entry)}_${tail}`
  })
  return baseKey + tail
}

/** The flags of rules whose counters differ from the values of requests. */
const countsTogether = ruleFlag.shares | ruleFlag.groups

/**
 * Returns what stands for the entry's value in a cache key: the value itself, its network with `groupBy`, or
 * the rule if its values share a counter.
 */
function toCountedValue(table: DomainTable, record: number, entry: DescriptorEntry): string {
  if (!hasFlag(table, record, countsTogether)) return entry.value
  if (hasFlag(table, record, ruleFlag.shares)) return findPattern(table, record, entry)
  const lengths = readWord(table, record, field.next)
  return toNetwork(entry.value, lengths & 0xff, lengths >>> 8)
}

function visitFromLast(
  table: DomainTable,
  last: number,
  entries: readonly DescriptorEntry[],
  visit: (entry: DescriptorEntry, record: number) => void,
): void {
  let record = last
  for (let index = entries.length - 1; index >= 0 && record !== none; index--) {
    const entry = entries[index]
    if (entry !== undefined) visit(entry, record)
    record = readWord(table, record, field.parent)
  }
}

/** Names a level by key and value, even an empty value, for `detailed_metric` without a shared counter. */
function formatDetailed(_table: DomainTable, _record: number, { key, value }: DescriptorEntry): string {
  return `${key}_${value}`
}

/**
 * Names a level for `detailed_metric` with a shared counter on the path: values that share a counter appear
 * as their pattern or network.
 */
function formatShared(table: DomainTable, record: number, entry: DescriptorEntry): string {
  if (!hasFlag(table, record, countsTogether)) return toFinalKey(entry)
  return `${entry.key}_${toCountedValue(table, record, entry)}`
}

/**
 * Names a level for `value_to_metric` on the path: with the request's value if the rule has exactly this
 * value or the flag; otherwise with the pattern if the rule is a wildcard, and with the key only if it is
 * not.
 */
function formatNamed(table: DomainTable, record: number, entry: DescriptorEntry): string {
  const rule = readKeyAndValue(table, record)
  const { key, value } = rule
  const isNamed = hasFlag(table, record, ruleFlag.valueToMetric)
  if (isNamed && hasFlag(table, record, ruleFlag.groups)) return formatShared(table, record, entry)
  if (isNamed && !hasFlag(table, record, ruleFlag.shares)) return toFinalKey(entry)
  if (hasFlag(table, record, ruleFlag.matches)) return toFinalKey(rule)
  if (value !== '' && value === entry.value && key === entry.key) return toFinalKey(entry)
  const isWildcard = key.includes('*') || value.includes('*')
  return isWildcard ? `${entry.key}_${findPattern(table, record, entry)}` : entry.key
}

/**
 * Returns the text that stands for the entry's value: `match:` and the name of a rule with `match`, otherwise
 * the composite key of the rule. If that begins with the entry's key and `_`, they are left out.
 */
function findPattern(table: DomainTable, record: number, entry: DescriptorEntry): string {
  if (hasFlag(table, record, ruleFlag.matches)) return `match:${readKeyAndValue(table, record).value}`
  const spelling = toFinalKey(readKeyAndValue(table, record))
  return spelling.startsWith(`${entry.key}_`) ? spelling.slice(entry.key.length + 1) : spelling
}

/**
 * Returns the match for a limit that the request brings with it. Such a limit does not depend on the rules:
 * it has no shadow mode, no quota mode and no name, and replaces no limit. The caller checks that the domain
 * is known.
 */
export function createOverride<S>(
  domain: string,
  entries: readonly DescriptorEntry[],
  { requestsPerUnit, unit }: { readonly requestsPerUnit: number; readonly unit: Unit },
  attach: (statName: string) => S,
): Match<S> {
  const fullKey = `${domain}.${entries.map(toFinalKey).join('.')}`
  const statName = sanitizeStatName(fullKey)
  let baseKey = `${domain}_`
  for (const { key, value } of entries) baseKey += `${key}_${value}_`
  const limit: Limit<S> = {
    name: '',
    fullKey,
    configuredKey: '',
    statName,
    requestsPerUnit,
    unit,
    unitSeconds: unitSeconds[unit],
    unlimited: false,
    shadowMode: false,
    quotaMode: false,
    replaces: [],
    metadata: undefined,
    stats: attach(statName),
    boundaries: undefined,
    admission: undefined,
    members: undefined,
  }
  return { limit, baseKey }
}
