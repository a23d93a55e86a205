import type { FieldSpelling, RateLimitRule } from './model.ts'
import { maxFindingsOfKind } from './problems.ts'

/** Longer values are not examined: a person writes neither a range nor an expression of such a length. */
const maxCharacters = 256

/**
 * Returns why a value probably does not match what its author means, and how to write it instead; undefined
 * for any other value. Requests are compared with the value as text, case-sensitively, and only `*` is
 * special.
 */
export function describeUnlikelyValue(
  key: string,
  value: string,
  spelling: FieldSpelling = 'snake',
): string | undefined {
  if (value.length > maxCharacters) return undefined
  // Only resources have `match`, not the files of envoyproxy/ratelimit.
  const hasMatch = spelling === 'camel'
  return describeRange(key, value, hasMatch) ?? describePattern(value, hasMatch) ?? describeScheme(value)
}

const ipv4Range = /^((?:\d{1,3}\.){3}\d{1,3})\/(\d|[12]\d|3[0-2])$/
const ipv6Range = /^(?=[^/]*::|(?:[^:/]*:){7})[\da-f:]+(?:\.\d+){0,3}\/(?:\d{1,2}|1[01]\d|12[0-8])$/i

/**
 * Returns the warning for a range of addresses. A key that contains `masked` gets none: Envoy's action
 * masked_remote_address sends ranges as values, so the text of a range can match.
 */
function describeRange(key: string, value: string, hasMatch: boolean): string | undefined {
  const [, address, length] = ipv4Range.exec(value) ?? []
  if ((address === undefined && !ipv6Range.test(value)) || /masked/i.test(key)) return undefined
  if (hasMatch) {
    return `${quote(value)} matches only this text, not the addresses of the range; write match: {cidr: [${quote(value)}]}`
  }
  const octets = Number(length) / 8
  const isWhole = address !== undefined && Number.isInteger(octets) && octets >= 1 && octets <= 3
  const wildcard = isWhole
    ? `write ${address.split('.').slice(0, octets).join('.')}.* for these addresses, or `
    : ''
  return (
    `${quote(value)} matches only this text, not the addresses of the range; ${wildcard}let Envoy send the ` +
    'range: the action masked_remote_address, whose key and value are masked_remote_address and the range'
  )
}

/**
 * Signs that a value is meant as a regular expression. A `*` after a name and a dot, such as `api.*`, is not
 * among them, because it may be meant as a wildcard.
 */
const signsOfPattern = [
  /^\^[\w/.\\([]/, // ^/api
  /\\(?:[dDwWsS][+*?{]|[./+*?()[\]])/, // \d+ and \.
  /\[\^?\w-\w/, // [0-9]
  /\[[^[\]]{1,32}\](?:[+*?]|\{\d)/, // [^/]+
  /\([^()|]{1,64}\|/, // (a|b)
  /\(\?[:=!<]/, // (?:a)
  /(?:^|\/)\.[*+](?:$|[/$?])/, // /api/.*
]

function describePattern(value: string, hasMatch: boolean): string | undefined {
  if (!signsOfPattern.some(sign => sign.test(value))) return undefined
  const written = toWildcard(value)
  const advice = written === undefined ? '' : `; write ${quote(written)}, in which each * matches any text`
  const regex = hasMatch ? '; match.regex compares with a regular expression' : ''
  return `${quote(value)} is compared as text, not as a regular expression${advice}${regex}`
}

/**
 * Returns a wildcard that matches all that the expression matches, and perhaps more; undefined if there is
 * none.
 */
function toWildcard(expression: string): string | undefined {
  const isOpen = expression.startsWith('^') && !expression.endsWith('$')
  const text = expression
    .replace(/^\^|\$$/g, '')
    .replace(
      /\[[^\]]+\](?:[+*?]|\{[\d,]+\})?|\\[dDwWsS](?:[+*?]|\{[\d,]+\})?|\.[+*]\??|\((?:[^()])*\)[+*?]?/g,
      '*',
    )
    .replace(/\\([^\w])/g, '$1')
  const wildcard = `${text}${isOpen ? '*' : ''}`.replace(/\*+/g, '*')
  return /[\\^$+?()[\]{}|]/.test(wildcard) || wildcard === '*' ? undefined : wildcard
}

const schemes = ['Bearer', 'Basic', 'Digest']

function describeScheme(value: string): string | undefined {
  const written = /^([a-z]+)[ *]/i.exec(value)?.[1]
  const usual = schemes.find(scheme => scheme.toLowerCase() === written?.toLowerCase())
  if (usual === undefined || usual === written) return undefined
  return (
    `${quote(value)} does not match "${usual} …", which clients usually send: case matters; ` +
    `write ${quote(usual + value.slice(usual.length))}, and a rule for each other spelling that clients send`
  )
}

const quote = (value: string) => `"${value}"`

/** A descriptor of one level, which may come from another configuration of the domain than its siblings. */
export interface Sibling {
  /** The `name` of the configuration that contains the descriptor. */
  readonly source: string
  readonly path: string
  readonly descriptor: RateLimitRule
}

/**
 * At most this many siblings of a level are compared: a warning must not cost more than the rest of the
 * validation.
 */
const maxComparisons = 500_000

/**
 * Returns pairs of siblings with the keys `a` and `a_b` whose requests can get the same cache key: `a` with
 * the value `b_c` and `a_b` with the value `c` both become `a_b_c`, as also in the lookups of
 * envoyproxy/ratelimit. Returns at most one pair for two keys. Siblings that have the same composite key
 * themselves are left out, because `validateDomains` rejects them.
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
      const pair = findConfusablePair(shorter, longer, `${key.slice(beginning.length + 1)}_`)
      if (pair !== undefined) pairs.push(pair)
      if (pairs.length > maxFindingsOfKind) return pairs
    }
    beginnings.push(key)
  }
  return pairs
}

/**
 * Returns one sibling of each key whose requests can get the same cache key; undefined if there is no such
 * pair. A value of the shorter key that begins with `rest` can be confused with the longer key: `rest` is
 * `b_` for the keys `a` and `a_b`.
 */
function findConfusablePair(shorter: readonly Sibling[], longer: readonly Sibling[], rest: string) {
  const open = shorter.find(({ descriptor }) => isOpen(descriptor) && canBegin(descriptor, rest))
  const [first] = longer
  if (open !== undefined && first !== undefined) return { shorter: open, longer: first }
  const openLonger = longer.find(({ descriptor }) => isOpen(descriptor))
  const exact = shorter.find(
    ({ descriptor: { value, match } }) => match === undefined && value.startsWith(rest),
  )
  return exact && openLonger && { shorter: exact, longer: openLonger }
}

function isOpen({ value, match }: RateLimitRule): boolean {
  return value === '' || value.includes('*') || match !== undefined
}

function canBegin({ value, match }: RateLimitRule, rest: string): boolean {
  if (match !== undefined) return true
  const literal = value.slice(0, Math.max(0, value.indexOf('*')))
  return literal.startsWith(rest) || rest.startsWith(literal)
}
