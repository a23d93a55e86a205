import { ipv4Bits, ipv6Bits, parseNetwork } from './address.ts'
import {
  type DomainTable,
  field,
  hashRecord,
  headField,
  headOfPatterns,
  none,
  recordWords,
  ruleFlag,
  topLevel,
  unitShift,
} from './domain-table.ts'
import { effectiveFields, type LimitFields, limitFields, type MatchFields, type RuleMatch } from './fields.ts'
import { findFeatures, type RateLimitDomain, type RateLimitPolicy, type RateLimitRule } from './model.ts'
import { type Pattern, patternField, patternWords, reverseText, sortPatterns } from './patterns.ts'
import { parseUnit, units } from './units.ts'

/**
 * Compiles the configurations of one domain, in the order given. Requires that `validateDomains` found no
 * problem in them.
 */
export function compileDomain(domain: string, configs: readonly RateLimitDomain[]): DomainTable {
  const records = createRecords()
  const texts = createTexts()
  /** The heads of the lists of wildcard rules, by level and key. */
  const heads = new Map<string, number>()
  /** The last rule of each list, by the record of its head. */
  const tails = new Map<number, number>()
  const matches: MatchingRule[] = []
  let levels = topLevel

  function addAll(descriptors: readonly RateLimitRule[], level: number, parent: number): void {
    for (const descriptor of descriptors) {
      const rule = addRule(descriptor, level, parent)
      if (descriptor.descriptors.length === 0) continue
      levels += 1
      records.set(rule, field.below, levels)
      addAll(descriptor.descriptors, levels, rule)
    }
  }

  function addRule(descriptor: RateLimitRule, level: number, parent: number): number {
    const { key, value, match, groupBy, rateLimit, metadata } = descriptor
    const rule = records.add(level, texts.add(key), texts.add(value), hashRecord(level, key, value))
    records.set(rule, field.parent, parent)
    const above = parent === none ? undefined : records.get(parent, field.flags)
    const hasOpenParent = parent !== none && records.get(parent, field.value) === 0
    records.set(rule, field.flags, toFlags(descriptor, above, hasOpenParent))
    if (rateLimit !== undefined) {
      records.set(rule, field.requestsPerUnit, rateLimit.requestsPerUnit ?? 0)
      records.set(rule, field.name, texts.add(rateLimit.name))
    }
    records.set(rule, field.options, texts.add(encodeOptions(descriptor)))
    if (metadata !== undefined) records.set(rule, field.metadata, texts.add(JSON.stringify(metadata)))
    // Rules with a `*` in the key form one list for each level. Rules with a `*` in the value only form one
    // list for each key of a level.
    if (groupBy !== undefined) {
      const { ipv4Prefix = ipv4Bits, ipv6Prefix = ipv6Bits } = groupBy
      records.set(rule, field.next, ipv4Prefix + (ipv6Prefix << 8))
    }
    if (match !== undefined) matches.push({ level, key, rule, match })
    else if (key.includes('*')) append(level, '', rule)
    else if (value.includes('*')) append(level, key, rule)
    return rule
  }

  function append(level: number, key: string, rule: number): void {
    const head =
      heads.get(`${level} ${key}`) ?? records.add(-level, texts.add(key), 0, hashRecord(-level, key, ''))
    heads.set(`${level} ${key}`, head)
    records.set(tails.get(head) ?? head, field.next, rule)
    tails.set(head, rule)
  }

  for (const { descriptors } of configs) addAll(descriptors, topLevel, none)
  const patterns = addMatches(matches, records, texts)
  const all = records.finish()
  return {
    domain,
    records: all,
    slots: buildSlots(all),
    patterns,
    texts: texts.finish(),
    hasWildcards: heads.size > 0,
    hasMatches: matches.length > 0,
    allOrNothing: configs.some(({ allOrNothing }) => allOrNothing),
    extensions: configs
      .map(config => ({ source: config.name, features: findFeatures(config) }))
      .filter(({ features }) => features.length > 0),
  }
}

/** A rule with `match`. */
interface MatchingRule {
  readonly level: number
  readonly key: string
  readonly rule: number
  readonly match: RuleMatch
}

/**
 * Adds what finds the rules with `match`: aliases, and a head for each key of a level that has patterns or
 * regular expressions. Returns the patterns.
 */
function addMatches(
  matches: readonly MatchingRule[],
  records: ReturnType<typeof createRecords>,
  texts: ReturnType<typeof createTexts>,
): Int32Array {
  // A search finds the first of equal records: an exact value, then match.exact, then the first match.oneOf.
  for (const { level, key, rule, match } of matches) {
    if (match.exact !== undefined) addAlias(level, key, match.exact, rule)
  }
  for (const { level, key, rule, match } of matches) {
    for (const text of match.oneOf ?? []) addAlias(level, key, text, rule)
  }

  function addAlias(level: number, key: string, text: string, rule: number): void {
    const alias = records.add(level, texts.add(key), texts.add(text), hashRecord(level, key, text))
    records.set(alias, field.flags, ruleFlag.alias)
    records.set(alias, field.next, rule)
  }

  const words: number[] = []
  function addPatterns(patterns: readonly Pattern[]): number {
    const start = words.length / patternWords
    for (const { text, enclosing, rule } of sortPatterns(patterns)) {
      const at = words.length
      words[at + patternField.text] = texts.add(text)
      words[at + patternField.enclosing] = enclosing === none ? none : start + enclosing
      words[at + patternField.rule] = rule
    }
    return start
  }

  for (const siblings of Map.groupBy(matches, ({ level, key }) => `${level} ${key}`).values()) {
    const [first] = siblings
    const list = (toTexts: (match: RuleMatch) => readonly string[]) =>
      siblings.flatMap(({ match, rule }) => toTexts(match).map(text => ({ text, rule })))
    const networks = list(({ cidr = [] }) => cidr.map(readNetwork))
    const prefixes = list(({ prefix }) => (prefix === undefined ? [] : [prefix]))
    const suffixes = list(({ suffix }) => (suffix === undefined ? [] : [reverseText(suffix)]))
    const regexes = siblings.filter(({ match }) => match.regex !== undefined)
    if (first === undefined || [networks, prefixes, suffixes, regexes].every(({ length }) => length === 0))
      continue
    const { level, key } = first
    const head = records.add(
      -level,
      texts.add(key),
      texts.add(headOfPatterns),
      hashRecord(-level, key, headOfPatterns),
    )
    records.set(head, headField.cidr, addPatterns(networks))
    records.set(head, headField.prefix, addPatterns(prefixes))
    records.set(head, headField.suffix, addPatterns(suffixes))
    records.set(head, headField.end, words.length / patternWords)
    let tail = head
    for (const { rule } of regexes) {
      records.set(tail, field.next, rule)
      tail = rule
    }
  }
  return Int32Array.from(words)
}

function readNetwork(text: string): string {
  const network = parseNetwork(text)
  if ('bits' in network) return network.bits
  throw new Error(`compileDomain: the network '${text}' was not rejected`)
}

function toFlags(descriptor: RateLimitRule, above: number | undefined, hasOpenParent: boolean): number {
  const { key, value, match, groupBy, rateLimit, limits } = descriptor
  const inherited = above ?? ruleFlag.literal
  const isWildcard = key.includes('*') || value.includes('*')
  let flags = rateLimit === undefined ? 0 : ruleFlag.hasLimit | limitFlags(rateLimit)
  if (limits !== undefined) flags |= ruleFlag.hasLimit
  if (descriptor.shadowMode) flags |= ruleFlag.shadowMode
  if (descriptor.quotaMode) flags |= ruleFlag.quotaMode
  if (descriptor.detailedMetric) flags |= ruleFlag.detailedMetric
  if (descriptor.valueToMetric) flags |= ruleFlag.valueToMetric | ruleFlag.valueToMetricInPath
  if (descriptor.shareThreshold && (isWildcard || match)) flags |= ruleFlag.shares | ruleFlag.sharesInPath
  if (match !== undefined) {
    flags |= match.regex === undefined ? ruleFlag.matches : ruleFlag.matches | ruleFlag.hasRegex
  }
  if (groupBy !== undefined) flags |= ruleFlag.groups | ruleFlag.sharesInPath
  const isLiteral = !isWildcard && !hasOpenParent && match === undefined && groupBy === undefined
  if (isLiteral) flags |= inherited & ruleFlag.literal
  return flags | (inherited & (ruleFlag.valueToMetricInPath | ruleFlag.sharesInPath))
}

function limitFlags({ unit, unlimited }: RateLimitPolicy): number {
  const unitIndex = units.indexOf(parseUnit(unit) ?? 'second')
  return (unitIndex << unitShift) | (unlimited ? ruleFlag.unlimited : 0)
}

/** The fields that few rules have. A record has one text for all of them. */
export type RuleOptions = LimitFields &
  MatchFields & {
    readonly replaces: readonly string[]
    /** The members of a rule with several limits. */
    readonly limits?: readonly RateLimitPolicy[]
  }

/** Returns the `RuleOptions` of a rule as JSON, or the empty text if it has none. */
function encodeOptions({ rateLimit, limits, match, groupBy }: RateLimitRule): string {
  const replaces = rateLimit?.replaces ?? limits?.flatMap(limit => limit.replaces) ?? []
  const fields = rateLimit && effectiveFields(limitFields, rateLimit)
  const members = rateLimit === undefined ? limits : undefined
  const isPlain = (members ?? match ?? groupBy) === undefined && replaces.length === 0
  if (isPlain && Object.keys(fields ?? {}).length === 0) return ''
  return JSON.stringify({
    ...(replaces.length > 0 && { replaces }),
    ...fields,
    limits: members,
    match,
    groupBy,
  })
}

const initialWords = 16 * recordWords

function createRecords() {
  let words = new Int32Array(initialWords)
  let count = 0
  return {
    add(level: number, key: number, value: number, hash: number): number {
      const at = count * recordWords
      if (at === words.length) words = doubleSize(words)
      words[at + field.level] = level
      words[at + field.key] = key
      words[at + field.value] = value
      words[at + field.next] = none
      words[at + field.hash] = hash
      count += 1
      return count - 1
    },
    get: (record: number, which: number) => words[record * recordWords + which] ?? 0,
    set(record: number, which: number, value: number): void {
      words[record * recordWords + which] = value
    },
    finish: () => words.slice(0, count * recordWords),
  }
}

const initialUnits = 256

/** Stores each text once, so that texts of many rules stay in the processor's caches. */
function createTexts() {
  const offsets = new Map<string, number>([['', 0]])
  let units = new Uint16Array(initialUnits)
  let length = 2
  return {
    add(text: string): number {
      const known = offsets.get(text)
      if (known !== undefined) return known
      const offset = length
      length += 2 + text.length
      while (length > units.length) units = doubleSize(units)
      units[offset] = text.length
      units[offset + 1] = text.length >>> 16
      for (let at = 0; at < text.length; at++) units[offset + 2 + at] = text.charCodeAt(at)
      offsets.set(text, offset)
      return offset
    },
    finish: () => units.slice(0, length),
  }
}

function doubleSize<T extends Int32Array<ArrayBuffer> | Uint16Array<ArrayBuffer>>(before: T): T {
  const larger = new (before.constructor as new (length: number) => T)(2 * before.length)
  larger.set(before)
  return larger
}

/** Leaves out the rules with `match`. At most half of the slots are used, so that probing is short. */
function buildSlots(records: Int32Array): Int32Array {
  const count = records.length / recordWords
  const size = 2 ** Math.ceil(Math.log2(2 * count + 1))
  const slots = new Int32Array(2 * size)
  const last = slots.length - 2
  for (let record = 0; record < count; record++) {
    const at = record * recordWords
    if (((records[at + field.flags] ?? 0) & ruleFlag.matches) !== 0) continue
    const hash = records[at + field.hash] ?? 0
    let slot = (2 * hash) & last
    while (slots[slot + 1] !== 0) slot = (slot + 2) & last
    slots[slot] = hash
    slots[slot + 1] = record + 1
  }
  return slots
}
