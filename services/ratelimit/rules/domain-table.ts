import type { Feature } from './fields.ts'

/**
 * The compiled rules of one domain as flat buffers. The garbage collector visits none of them, 100,000 rules
 * take about 15 MiB, and they move to another thread without a copy.
 */
export interface DomainTable {
  readonly domain: string
  /**
   * Records of `recordWords` words, in the order of the configuration. A record is a rule, an alias, or the
   * head of a list of wildcard rules or of patterns. A head has the negated number of its level. An alias is
   * one of the texts of a rule with `match.exact` or `match.oneOf`; all aliases are after all rules.
   */
  readonly records: Int32Array
  /**
   * A hash table with open addressing. A slot has two words: the first is a hash, the second is the number of
   * a record plus 1, or 0 in a free slot. Rules with `match` are not in it, because their value is a name.
   */
  readonly slots: Int32Array
  /** Patterns of `patternWords` words: ranges for the networks, prefixes and suffixes of each key of a level. */
  readonly patterns: Int32Array
  /**
   * UTF-16 code units. A text is stored as its length, in two units with the lower half first, followed by
   * its units. The empty text is at 0.
   */
  readonly texts: Uint16Array
  readonly hasWildcards: boolean
  /** Whether any rule has `match`. */
  readonly hasMatches: boolean
  /** Whether a request is counted for all of its descriptors, or for none of them if one rejects it. */
  readonly allOrNothing: boolean
  /**
   * The features that each configuration needs beyond those of envoyproxy/ratelimit. Configurations that need
   * none are left out.
   */
  readonly extensions: readonly { readonly source: string; readonly features: readonly Feature[] }[]
}

/** The position of each word in a record. A text is the offset at which it begins in `texts`. */
export const field = {
  /** The level, from 1 for the domain's top descriptors. */
  level: 0,
  key: 1,
  /** The empty text matches any value. */
  value: 2,
  /** The level of the nested descriptors; 0 for none. */
  below: 3,
  flags: 4,
  /** The record of the parent descriptor; `none` at the top. */
  parent: 5,
  /**
   * The next wildcard rule or regular expression of the same list, or in a head the first one; `none` at the
   * end. In an alias, the rule. In a rule with `groupBy`, the prefix lengths: that of IPv4 in the lower byte,
   * that of IPv6 in the next one.
   */
  next: 6,
  requestsPerUnit: 7,
  name: 8,
  /** JSON: `RuleOptions`. The empty text for none. */
  options: 9,
  /** JSON. The empty text for none. */
  metadata: 10,
  hash: 11,
} as const

/**
 * The position of each word in the head of a key with patterns, whose value is `headOfPatterns`. A kind begins
 * in `patterns` at this index and ends where the following kind begins. The rules with regular expressions
 * form a list, as wildcard rules do.
 */
export const headField = { cidr: 3, prefix: 5, next: 6, suffix: 7, end: 8 } as const

/** Differs from the empty value of the heads of wildcard rules. */
export const headOfPatterns = 'match'

export const recordWords = 12
export const none = -1
/** The level of the domain's top descriptors. */
export const topLevel = 1

/** The bits of a rule's flags. */
export const ruleFlag = {
  hasLimit: 1,
  unlimited: 1 << 1,
  shadowMode: 1 << 2,
  quotaMode: 1 << 3,
  detailedMetric: 1 << 4,
  valueToMetric: 1 << 5,
  /** The rule or one above it has `value_to_metric`. */
  valueToMetricInPath: 1 << 6,
  /** All values that match this rule, which is a wildcard or has `match`, share one counter. */
  shares: 1 << 7,
  /** The rule or one above it has the flag `shares` or `groups`. */
  sharesInPath: 1 << 8,
  /**
   * All requests that match the rule have the same cache key. For a rule with any value, the last value in
   * the key differs.
   */
  literal: 1 << 9,
  /** The rule has `match`. */
  matches: 1 << 10,
  /** The addresses of a network share one counter. */
  groups: 1 << 11,
  /** The record is an alias of the rule in `next`. */
  alias: 1 << 12,
  /** The rule has `match.regex`. */
  hasRegex: 1 << 13,
} as const

/** The index of the unit in `units` is stored in the flags from this bit on. */
export const unitShift = 16

export function readWord({ records }: DomainTable, record: number, which: number): number {
  return records[record * recordWords + which] ?? 0
}

export function recordCount({ records }: DomainTable): number {
  return records.length / recordWords
}

export function hasFlag(table: DomainTable, record: number, bit: number): boolean {
  return (readWord(table, record, field.flags) & bit) !== 0
}

/**
 * At most this many units are passed to one call of `String.fromCharCode`; more arguments could be too many.
 */
const maxUnits = 4096

/** Returns the text at this offset, as a new string. */
export function readTextAt({ texts }: DomainTable, offset: number): string {
  const start = offset + 2
  const end = start + readLengthAt(texts, offset)
  if (end - start <= maxUnits) return String.fromCharCode.apply(null, texts.subarray(start, end) as never)
  let text = ''
  for (let at = start; at < end; at += maxUnits) {
    text += String.fromCharCode.apply(null, texts.subarray(at, Math.min(end, at + maxUnits)) as never)
  }
  return text
}

export function readText(table: DomainTable, record: number, which: number): string {
  return readTextAt(table, readWord(table, record, which))
}

export function readLengthAt(texts: Uint16Array, offset: number): number {
  return (texts[offset] ?? 0) + (texts[offset + 1] ?? 0) * 0x10000
}

/**
 * Returns the record with this level, key and value, or `none`. If none of the rules is in a cache of the
 * processor, the search waits for memory three times: for the slot, for the record and for the text of the
 * value.
 */
export function findRecord(
  { records, slots, texts }: DomainTable,
  level: number,
  key: string,
  value: string,
): number {
  const hash = hashRecord(level, key, value)
  const last = slots.length - 2
  for (let slot = (2 * hash) & last; ; slot = (slot + 2) & last) {
    const record = (slots[slot + 1] ?? 0) - 1
    if (record === none) return none
    if (slots[slot] !== hash) continue
    const at = record * recordWords
    if (
      records[at + field.level] === level &&
      isTextAt(texts, records[at + field.value] ?? 0, value) &&
      isTextAt(texts, records[at + field.key] ?? 0, key)
    ) {
      return record
    }
  }
}

function isTextAt(texts: Uint16Array, offset: number, text: string): boolean {
  const { length } = text
  if (readLengthAt(texts, offset) !== length) return false
  const start = offset + 2
  for (let at = 0; at < length; at++) {
    if (texts[start + at] !== text.charCodeAt(at)) return false
  }
  return true
}

/** FNV-1a over the UTF-16 units, with a final mix so that the lower bits depend on all bits. */
export function hashRecord(level: number, key: string, value: string): number {
  let hash = level
  for (let at = 0; at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ 0xffff, 0x01000193)
  for (let at = 0; at < value.length; at++) hash = Math.imul(hash ^ value.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
  return hash ^ (hash >>> 13)
}
