import { type DomainTable, none, readLengthAt } from './domain-table.ts'

/**
 * Sorted patterns, of which the longest one that a text begins with is found by a binary search. A prefix, a
 * suffix and a network are the same here: a suffix is a prefix of the reversed text, and a network one of the
 * bits of an address.
 */

/** The position of each word of a pattern in `DomainTable.patterns`. */
export const patternField = {
  /** The offset of the pattern in `texts`. */
  text: 0,
  /** The index of the longest other pattern that this one begins with; `none` if there is none. */
  enclosing: 1,
  /** The number of the rule's record in `DomainTable.records`. */
  rule: 2,
} as const

export const patternWords = 3

export interface Pattern {
  readonly text: string
  readonly rule: number
}

/**
 * Returns patterns in the order of their UTF-16 code units, each with the index in the result of the pattern
 * that encloses it, or `none`. Of equal patterns, only the first remains.
 */
export function sortPatterns(
  patterns: readonly Pattern[],
): readonly (Pattern & { readonly enclosing: number })[] {
  const sorted = patterns.toSorted((a, b) => (a.text < b.text ? -1 : Number(a.text > b.text)))
  const result: (Pattern & { readonly enclosing: number })[] = []
  for (const { text, rule } of sorted) {
    let enclosing = result.length - 1
    while (enclosing >= 0 && !text.startsWith(result[enclosing]?.text ?? '')) {
      enclosing = result[enclosing]?.enclosing ?? none
    }
    if (result[enclosing]?.text !== text) result.push({ text, rule, enclosing })
  }
  return result
}

/** Reverses a text by its UTF-16 code units. */
export function reverseText(text: string): string {
  let reversed = ''
  for (let at = text.length - 1; at >= 0; at--) reversed += text[at]
  return reversed
}

/**
 * Returns the index of the longest pattern, from `start` on and before `end`, that the text begins with, or
 * `none`. With `isReversed`, the text is read from its end.
 */
export function findLongestPattern(
  { patterns, texts }: DomainTable,
  start: number,
  end: number,
  text: string,
  isReversed: boolean,
): number {
  const { length } = text
  const last = length - 1
  let [low, high] = [start, end]
  // The units that the text has in common with the patterns before `low` and at `high`. All patterns between
  // them have at least the smaller number in common with it, so comparisons begin there.
  let [commonLow, commonHigh] = [0, 0]
  while (low < high) {
    const middle = (low + high) >>> 1
    const offset = patterns[middle * patternWords + patternField.text] ?? 0
    const patternLength = readLengthAt(texts, offset)
    const most = Math.min(length, patternLength)
    let common = Math.min(commonLow, commonHigh)
    let difference = 0
    while (common < most && difference === 0) {
      difference = (texts[offset + 2 + common] ?? 0) - text.charCodeAt(isReversed ? last - common : common)
      if (difference === 0) common += 1
    }
    if (difference === 0) difference = patternLength - length
    if (difference > 0) {
      high = middle
      commonHigh = common
    } else {
      low = middle + 1
      commonLow = common
    }
  }
  let found = low - 1
  if (found < start) return none
  while (found !== none && readPatternLength(patterns, texts, found) > commonLow) {
    found = patterns[found * patternWords + patternField.enclosing] ?? none
  }
  return found
}

function readPatternLength(patterns: Int32Array, texts: Uint16Array, index: number): number {
  return readLengthAt(texts, patterns[index * patternWords + patternField.text] ?? 0)
}

/** Returns the record of a pattern's rule; `none` for the index `none`. */
export function readPatternRule({ patterns }: DomainTable, index: number): number {
  return index === none ? none : (patterns[index * patternWords + patternField.rule] ?? none)
}
