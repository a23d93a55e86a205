import type { RateLimitRule } from '../rate-limit-domain.ts'
import { maxFindings } from './findings.ts'

/** A descriptor of one level, which may come from another configuration of the domain than its siblings. */
export interface Sibling {
  /** The `name` of its configuration. */
  readonly source: string
  readonly path: string
  readonly descriptor: RateLimitRule
}

/** The most comparisons for one level: a warning must not cost more than the rest of the validation. */
const maxComparisons = 500_000

/**
 * Returns pairs of siblings with the keys `a` and `a_b` whose requests can have the same spelling: `a` with
 * the value `b_c` and `a_b` with the value `c` are both `a_b_c`, in cache keys and in the reference's
 * lookups. Returns at most one pair for two keys. Siblings with the same spelling are not included: they are
 * rejected.
 */
export function findConfusableKeys(
  siblings: readonly Sibling[],
): readonly { readonly shorter: Sibling; readonly longer: Sibling }[] {
  const byKey = Map.groupBy(siblings, sibling => sibling.descriptor.key)
  const pairs: { shorter: Sibling; longer: Sibling }[] = []
  let left = maxComparisons
  // In sorted order, each key comes after all its prefixes, which form a stack.
  const beginnings: string[] = []
  for (const key of [...byKey.keys()].sort()) {
    while (beginnings.length > 0 && !key.startsWith(beginnings.at(-1) ?? '')) beginnings.pop()
    const longer = byKey.get(key) ?? []
    for (const beginning of beginnings) {
      if (key[beginning.length] !== '_') continue
      const shorter = byKey.get(beginning) ?? []
      left -= shorter.length + longer.length
      if (left < 0) return pairs
      const pair = confusable(shorter, longer, `${key.slice(beginning.length + 1)}_`)
      if (pair !== undefined) pairs.push(pair)
      if (pairs.length > maxFindings) return pairs
    }
    beginnings.push(key)
  }
  return pairs
}

/** `rest` is the prefix of a value of the shorter key with which it can be confused with the longer key. */
function confusable(shorter: readonly Sibling[], longer: readonly Sibling[], rest: string) {
  const open = shorter.find(({ descriptor }) => isOpen(descriptor.value) && canBegin(descriptor.value, rest))
  const [first] = longer
  if (open !== undefined && first !== undefined) return { shorter: open, longer: first }
  const openLonger = longer.find(({ descriptor }) => isOpen(descriptor.value))
  const exact = shorter.find(({ descriptor }) => descriptor.value.startsWith(rest))
  return exact && openLonger && { shorter: exact, longer: openLonger }
}

function isOpen(value: string): boolean {
  return value === '' || value.includes('*')
}

function canBegin(value: string, rest: string): boolean {
  const literal = value.slice(0, Math.max(0, value.indexOf('*')))
  return literal.startsWith(rest) || rest.startsWith(literal)
}
