import type { Level, Limit, Rule, RuleSet } from './compile.ts'
import { type Entry, matchOf, walk } from './match.ts'

/** Why a request's descriptor has the limit that it has, or none. Plain data. */
export interface Explanation {
  /**
   * One for each entry of the request, in its order; those after one that stopped the way were not looked at.
   */
  readonly entries: readonly ExplainedEntry[]
  /** What it comes to, in one line. */
  readonly result: string
  readonly limit?: Omit<Limit<unknown>, 'stats'>
  /** The cache key without prefix and window, when there is a limit. */
  readonly stem?: string
}

export interface ExplainedEntry extends Entry {
  readonly how: 'exact' | 'wildcard' | 'any value' | 'stopped' | 'not looked at'
  /** The rule that matched, as configured: `checkout.user_alice`. */
  readonly rule?: string
  /** Why the way stopped here. */
  readonly reason?: string
}

/** A list of what there is stops after so many. */
const maxListed = 10

/** Follows `match` on its way, with reasons. */
export function explain(rules: RuleSet<unknown>, domain: string, entries: readonly Entry[]): Explanation {
  const top = rules.domains.get(domain)
  if (top === undefined) {
    const result = `domain '${domain}' unknown; ${thereAre(rules.domains.keys())}`
    return { entries: entries.map(notLookedAt), result }
  }
  const trail: Rule<unknown>[] = []
  const last = walk(rules, top, entries, trail)
  const explained = entries.map((entry, index): ExplainedEntry => {
    const rule = trail[index]
    if (rule !== undefined) return { ...plain(entry), how: howMatched(rule, entry), rule: rule.fullKey }
    if (index > trail.length) return notLookedAt(entry)
    return { ...plain(entry), how: 'stopped', reason: whyStopped(top, trail.at(-1), entry) }
  })
  if (last === undefined) {
    const reason = explained[trail.length]?.reason ?? 'the request has no entries'
    return { entries: explained, result: `no limit: ${reason}` }
  }
  if (last.limit === undefined) return { entries: explained, result: `no limit: ${whyNoLimit(last)}` }
  const { limit, stem } = matchOf(last, last.limit, domain, entries, undefined)
  const { stats: _, ...shown } = limit
  return { entries: explained, result: resultOf(limit), limit: shown, stem }
}

function plain({ key, value }: Entry): Entry {
  return { key, value }
}

function notLookedAt(entry: Entry): ExplainedEntry {
  return { ...plain(entry), how: 'not looked at' }
}

function howMatched(rule: Rule<unknown>, entry: Entry): ExplainedEntry['how'] {
  if (rule.value !== '' && rule.value === entry.value && rule.key === entry.key) return 'exact'
  return rule.wildcard === undefined ? 'any value' : 'wildcard'
}

function whyStopped(top: Level<unknown>, above: Rule<unknown> | undefined, entry: Entry): string {
  const level = above === undefined ? top : above.below
  if (level !== undefined) {
    const rules = level.keys.get(entry.key)
    if (rules === undefined)
      return `no rule for key ${entry.key} at this level; ${thereAre(level.keys.keys())}`
    const values = thereAre(rules.values)
    return `no rule for key ${entry.key} with value '${entry.value}' at this level; ${values}`
  }
  if (above?.limit !== undefined)
    return `rule ${above.fullKey} has a limit but the request goes on one level deeper`
  return `rule ${above?.fullKey} is whitelisted, and nothing stands below it`
}

function whyNoLimit(rule: Rule<unknown>): string {
  if (rule.below === undefined)
    return `whitelisted by ${rule.fullKey}, which has neither a limit nor rules below it`
  const keys = [...rule.below.keys.keys()]
  return `${rule.fullKey} is a placeholder without a limit; below it ${thereAre(keys)}`
}

function resultOf({ fullKey, name, unlimited, requestsPerUnit, unit }: Limit<unknown>): string {
  const called = name === '' ? fullKey : `${fullKey} (named ${name})`
  return unlimited ? `${called}: unlimited` : `${called}: ${requestsPerUnit}/${unit}`
}

function thereAre(names: Iterable<string>): string {
  const all = [...names]
  const more = all.length > maxListed ? `, and ${all.length - maxListed} more` : ''
  return all.length === 0 ? 'there are none' : `there are: ${all.slice(0, maxListed).join(', ')}${more}`
}
