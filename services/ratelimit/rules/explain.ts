import { listRulesOfLevel, type RuleSet, readFullKey, readKeyAndValue, readMatchFields } from './compile.ts'
import { type DomainTable, field, hasFlag, none, readWord, ruleFlag, topLevel } from './domain-table.ts'
import { isConcurrency, listNames, type MatchKind } from './fields.ts'
import type { LimitSettings } from './limit.ts'
import { createMatch, type DescriptorEntry, walk } from './match.ts'

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
}

/** A message lists at most this many names. */
const maxListed = 10

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
    if (rule !== undefined) {
      return { ...copyEntry(entry), how: describeMatch(table, rule, entry), rule: readFullKey(table, rule) }
    }
    if (index > trail.length) return toNotReached(entry)
    return { ...copyEntry(entry), how: 'stopped', reason: explainStop(table, trail.at(-1), entry) }
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
