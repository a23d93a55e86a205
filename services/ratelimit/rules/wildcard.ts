/** A value with `*`, each of which stands for any text, also none, taken apart once. */
export interface Wildcard {
  readonly prefix: string
  /** What must follow each other between prefix and suffix; none is empty. */
  readonly middles: readonly string[]
  readonly suffix: string
  /** Of all literal text together: the parts of a match never overlap. */
  readonly literalLength: number
}

/** `pattern` holds at least one `*`. */
export function compileWildcard(pattern: string): Wildcard {
  const parts = pattern.split('*')
  return {
    prefix: parts[0] ?? '',
    middles: parts.slice(1, -1).filter(part => part !== ''),
    suffix: parts.at(-1) ?? '',
    literalLength: pattern.length - (parts.length - 1),
  }
}

/** Whether the whole text is matched. Case counts. The time grows with the text, never with its square. */
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
