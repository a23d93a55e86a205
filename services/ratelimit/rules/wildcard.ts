/** A compiled pattern. Each `*` matches any text, including the empty one. */
export interface Wildcard {
  readonly prefix: string
  /** The literals between prefix and suffix, in order; none is empty. */
  readonly middles: readonly string[]
  readonly suffix: string
  /**
   * The length of all literals together. A shorter text cannot match, because literals never overlap in it.
   */
  readonly literalLength: number
}

/** `pattern` contains at least one `*`. */
export function compileWildcard(pattern: string): Wildcard {
  const parts = pattern.split('*')
  return {
    prefix: parts[0] ?? '',
    middles: parts.slice(1, -1).filter(part => part !== ''),
    suffix: parts.at(-1) ?? '',
    literalLength: pattern.length - (parts.length - 1),
  }
}

/** Returns whether the whole text matches, case-sensitively. The time is linear in the text. */
export function matchesWildcard(wildcard: Wildcard, text: string): boolean {
  const { prefix, middles, suffix, literalLength } = wildcard
  if (text.length < literalLength || !text.startsWith(prefix) || !text.endsWith(suffix)) return false
  const end = text.length - suffix.length
  let from = prefix.length
  for (const middle of middles) {
    const found = text.indexOf(middle, from)
    if (found === -1 || found + middle.length > end) return false
    from = found + middle.length
  }
  return true
}
