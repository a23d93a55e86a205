import { formatNetwork, parseAddress, parseNetwork } from './address.ts'
import {
  type Domain,
  findWildcard,
  listRulesOfLevel,
  type RuleSet,
  readFullKey,
  readKeyAndValue,
  readMatchFields,
} from './compile.ts'
import { type DomainTable, field, hasFlag, none, readWord, ruleFlag, topLevel } from './domain-table.ts'
import { isConcurrency, listNames, type MatchKind, matchPrecedence } from './fields.ts'
import type { LimitSettings } from './limit.ts'
import { createMatch, type DescriptorEntry, walk } from './match.ts'
import { toFinalKey } from './model.ts'
import { matchesRegex } from './regex.ts'
import { matchesWildcard } from './wildcard.ts'

/** Why a request's descriptor has this limit, or none. The object can be written as JSON. */
export interface Explanation {
  /**
   * One for each entry of the descriptor, in the same order. Entries after the one at which matching stopped
   * are `not reached`.
   */
  readonly entries: readonly ExplainedEntry[]
  /** The result in one line. */
  readonly result: string
  readonly limit?: LimitSettings
  /** The cache key without prefix and window, if there is a limit. */
  readonly baseKey?: string
}

interface ExplainedEntry extends DescriptorEntry {
  readonly how: MatchKind | 'exact' | 'wildcard' | 'any value' | 'stopped' | 'not reached'
  /** The rule that matched, as configured: `checkout.user_alice`. */
  readonly rule?: string
  /** Why matching stopped here. */
  readonly reason?: string
  /** The rules of the key in the order of precedence, if one of them has `match`; at most `maxListed`. */
  readonly candidates?: readonly Candidate[]
}

/** A rule that was compared with the value of an entry. The first one that matches applies. */
interface Candidate {
  readonly rule: string
  readonly how: ExplainedEntry['how']
  readonly matches: boolean
  /** Why it matches or does not: `does not begin with "/api/"`. */
  readonly reason: string
}

/** A message lists at most this many names. */
const maxListed = 10
const maxShownCharacters = 80

/** Matches like `match` and reports the reasons. It creates no statistics for names of requests. */
export function explain(
  rules: RuleSet<unknown>,
  domain: string,
  entries: readonly DescriptorEntry[],
): Explanation {
  const found = rules.domains.get(domain)
  if (found === undefined) {
    const result = `domain '${domain}' unknown; ${describeList(rules.domains.keys())}`
    return { entries: entries.map(toNotReached), result }
  }
  const { table } = found
  const trail: number[] = []
  const last = walk(found, entries, { counts: false, trail })
  const explained = entries.map((entry, index): ExplainedEntry => {
    const rule = trail[index]
    if (index > trail.length) return toNotReached(entry)
    const above = trail[index - 1]
    const candidates = listCandidates(
      found,
      above === undefined ? topLevel : readWord(table, above, field.below),
      entry,
    )
    const compared = { ...copyEntry(entry), ...(candidates.length > 0 && { candidates }) }
    if (rule === undefined) return { ...compared, how: 'stopped', reason: explainStop(table, above, entry) }
    return { ...compared, how: describeMatch(table, rule, entry), rule: readFullKey(table, rule) }
  })
  if (last === none) {
    const reason = explained[trail.length]?.reason ?? 'the request has no entries'
    return { entries: explained, result: `no limit: ${reason}` }
  }
  if (!hasFlag(table, last, ruleFlag.hasLimit)) {
    return { entries: explained, result: `no limit: ${explainNoLimit(table, last)}` }
  }
  const { limit, baseKey } = createMatch(found, last, entries, undefined)
  const { stats: _, configuredKey: _key, boundaries: __, admission: ___, members: ____, ...shown } = limit
  return { entries: explained, result: describeResult(limit), limit: shown, baseKey }
}

function copyEntry({ key, value }: DescriptorEntry): DescriptorEntry {
  return { key, value }
}

function toNotReached(entry: DescriptorEntry): ExplainedEntry {
  return { ...copyEntry(entry), how: 'not reached' }
}

function describeMatch(table: DomainTable, rule: number, entry: DescriptorEntry): ExplainedEntry['how'] {
  const { match } = readMatchFields(table, rule)
  if (match !== undefined) return listNames(match)[0] ?? 'exact'
  const { key, value } = readKeyAndValue(table, rule)
  if (value !== '' && value === entry.value && key === entry.key) return 'exact'
  return key.includes('*') || value.includes('*') ? 'wildcard' : 'any value'
}

function explainStop(table: DomainTable, above: number | undefined, entry: DescriptorEntry): string {
  const level = above === undefined ? topLevel : readWord(table, above, field.below)
  if (level !== 0) {
    const keys = listKeys(table, level)
    if (!keys.has(entry.key)) return `no rule for key ${entry.key} at this level; ${describeList(keys)}`
    const values = describeList(listValues(table, level, entry.key))
    return `no rule for key ${entry.key} with value '${entry.value}' at this level; ${values}`
  }
  const name = readFullKey(table, above ?? none)
  if (above !== undefined && hasFlag(table, above, ruleFlag.hasLimit)) {
    return `rule ${name} has a limit, but the request has one more entry`
  }
  return `rule ${name} is whitelisted, and has no rules below it`
}

function explainNoLimit(table: DomainTable, record: number): string {
  const name = readFullKey(table, record)
  const below = readWord(table, record, field.below)
  if (below === 0) return `whitelisted by ${name}, which has neither a limit nor rules below it`
  return `${name} is a placeholder without a limit; below it ${describeList(listKeys(table, below))}`
}

const precedence = [...matchPrecedence, 'wildcard', 'any value'] as const

/**
 * Returns the rules of the entry's key on a level, each compared with the entry's value. Returns none for a key
 * without `match`. Leaves out those that do not match if there are too many.
 */
function listCandidates(
  domain: Domain<unknown>,
  level: number,
  entry: DescriptorEntry,
): readonly Candidate[] {
  const { table } = domain
  if (!table.hasMatches || level === 0) return []
  const records = [...listRulesOfLevel(table, level)].filter(rule => {
    const { key } = readKeyAndValue(table, rule)
    return key === entry.key || key.includes('*')
  })
  if (!records.some(rule => hasFlag(table, rule, ruleFlag.matches))) return []
  const sorted = records
    .map(record => ({ record, ...compare(domain, record, entry) }))
    .sort(
      (a, b) =>
        precedence.indexOf(a.how) - precedence.indexOf(b.how) || b.length - a.length || a.record - b.record,
    )
  const spare = maxListed - sorted.filter(({ length }) => length >= 0).length
  let others = 0
  return sorted
    .filter(({ length }) => length >= 0 || others++ < spare)
    .slice(0, maxListed)
    .map(({ record, how, length, reason }) => {
      return { rule: readFullKey(table, record), how, matches: length >= 0, reason }
    })
}

const verbs = { begin: 'begins', end: 'ends', match: 'matches' } as const

interface Comparison {
  readonly how: (typeof precedence)[number]
  /** The length of the pattern that matches; -1 if none does. */
  readonly length: number
  readonly reason: string
}

function compare(domain: Domain<unknown>, record: number, entry: DescriptorEntry): Comparison {
  const { table, regexes } = domain
  const { match } = readMatchFields(table, record)
  const { value } = entry
  const judge = (
    how: Comparison['how'],
    matches: boolean,
    yes: string,
    no: string,
    length = 0,
  ): Comparison => (matches ? { how, length, reason: yes } : { how, length: -1, reason: no })
  const judgeText = (
    how: Comparison['how'],
    matches: boolean,
    verb: keyof typeof verbs,
    text: string,
    length = 0,
  ) => judge(how, matches, `the value ${verbs[verb]} ${text}`, `the value does not ${verb} ${text}`, length)
  if (match === undefined) {
    const rule = readKeyAndValue(table, record)
    const wildcard = findWildcard(domain, record)
    if (rule.value === value && rule.key === entry.key && value !== '') {
      return { how: 'exact', length: 0, reason: `the value is ${show(value)}` }
    }
    if (wildcard !== undefined) {
      const text = rule.key.includes('*') ? `${entry.key}_${value}` : value
      return judgeText('wildcard', matchesWildcard(wildcard, text), 'match', show(toFinalKey(rule)))
    }
    if (rule.value === '') return { how: 'any value', length: 0, reason: 'any value matches' }
    return { how: 'exact', length: -1, reason: `the value is not ${show(rule.value)}` }
  }
  const { exact, oneOf, cidr, prefix, suffix, regex } = match
  if (exact !== undefined) {
    return judge('exact', exact === value, `the value is ${show(value)}`, `the value is not ${show(exact)}`)
  }
  if (oneOf !== undefined) {
    const texts = oneOf.length === 1 ? 'the text' : `the ${oneOf.length} texts`
    return judge(
      'oneOf',
      oneOf.includes(value),
      `the value is one of ${texts}`,
      `the value is none of ${texts}`,
    )
  }
  if (prefix !== undefined) {
    return judgeText('prefix', value.startsWith(prefix), 'begin', `with ${show(prefix)}`, prefix.length)
  }
  if (suffix !== undefined) {
    return judgeText('suffix', value.endsWith(suffix), 'end', `with ${show(suffix)}`, suffix.length)
  }
  if (cidr !== undefined) return compareNetworks(cidr, value)
  const compiled = regexes.get(record)
  return judgeText(
    'regex',
    compiled !== undefined && matchesRegex(compiled, value),
    'match',
    show(regex ?? ''),
  )
}

function compareNetworks(cidr: readonly string[], value: string): Comparison {
  const bits = parseAddress(value)
  if (bits === undefined) return { how: 'cidr', length: -1, reason: 'the value is not an address' }
  const networks = cidr.flatMap(text => {
    const network = parseNetwork(text)
    return 'bits' in network && bits.startsWith(network.bits) ? [network.bits] : []
  })
  const [longest] = networks.sort((a, b) => b.length - a.length)
  if (longest === undefined) {
    const all = cidr.length === 1 ? cidr.join('') : `any of the ${cidr.length} networks`
    return { how: 'cidr', length: -1, reason: `the address is not in ${all}` }
  }
  return { how: 'cidr', length: longest.length, reason: `the address is in ${formatNetwork(longest)}` }
}

function show(text: string): string {
  return text.length <= maxShownCharacters ? text : `${text.slice(0, maxShownCharacters)}…`
}

function listKeys(table: DomainTable, level: number): ReadonlySet<string> {
  return new Set([...listRulesOfLevel(table, level)].map(rule => readKeyAndValue(table, rule).key))
}

function listValues(table: DomainTable, level: number, key: string): readonly string[] {
  const rules = [...listRulesOfLevel(table, level)].map(rule => readKeyAndValue(table, rule))
  return rules.filter(rule => rule.key === key && rule.value !== '').map(({ value }) => value)
}

function describeResult(limit: LimitSettings): string {
  const { fullKey, name, unlimited, limits } = limit
  if (limits !== undefined) {
    const shown = limits.map((each, index) => `${each.name || index} ${describeRate(each)}`)
    return `${fullKey}: all of ${shown.join('; ')}`
  }
  const called = name === '' ? fullKey : `${fullKey} (named ${name})`
  return `${called}: ${unlimited ? 'unlimited' : describeRate(limit)}`
}

/** Returns a text such as `10/15 seconds` or `5/second in a TokenBucket of 20`. */
function describeRate(limit: LimitSettings): string {
  const { requestsPerUnit, algorithm = 'FixedWindow', burst = requestsPerUnit } = limit
  if (isConcurrency(limit)) return `${requestsPerUnit} at the same time`
  const rate = `${requestsPerUnit}/${describeWindow(limit)}`
  if (algorithm === 'FixedWindow') return rate
  return algorithm === 'TokenBucket' ? `${rate} in a TokenBucket of ${burst}` : `${rate} in a SlidingWindow`
}

/** Returns a text such as `minute`, `15 seconds` or `month of Europe/Copenhagen`; for Concurrency, the lease. */
export function describeWindow(limit: LimitSettings): string {
  const { unit, unitMultiplier = 1, calendar } = limit
  if (isConcurrency(limit)) return `${limit.unitSeconds} s at most`
  const length = unitMultiplier === 1 ? unit : `${unitMultiplier} ${unit}s`
  return calendar === undefined ? length : `${length} of ${calendar.timeZone}`
}

function describeList(names: Iterable<string>): string {
  const all = [...names]
  const more = all.length > maxListed ? `, and ${all.length - maxListed} more` : ''
  return all.length === 0 ? 'there are none' : `there are: ${all.slice(0, maxListed).join(', ')}${more}`
}
