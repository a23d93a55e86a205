import { setFlagsFromString } from 'node:v8'

// Names of statistics can hold what callers sent, and a pattern that tries again and again on such a name
// would stop the whole process. This engine of V8 takes time in proportion to the name, as the reference's
// does, and refuses what cannot be done so. Patterns ask for it by the flag `l`; nothing else changes.
setFlagsFromString('--enable-experimental-regexp-engine')

/** A pattern or a template of the configuration is at most so long. */
export const maxPatternCharacters = 1000

/** Go's spellings that mean something else here, or nothing; `(?P<name>…)` is taken. */
const goOnly = /\\[AzQEC]|\[:\^?\w+:\]|\(\?[a-zA-Z-]+[:)]/

/**
 * A regular expression of the configuration, in the language of Go that the reference reads, as far as both
 * languages agree; unanchored. The error says what is wrong with it.
 */
export function compilePattern(
  text: string,
): { readonly pattern: RegExp; readonly groups: number } | { readonly error: string } {
  if (text.length > maxPatternCharacters) return { error: `longer than ${maxPatternCharacters} characters` }
  const unknown = goOnly.exec(text)
  if (unknown !== null) return { error: `${unknown[0]} is not supported` }
  try {
    const source = text.replaceAll('(?P<', '(?<')
    const pattern = new RegExp(source, 'l')
    // With an empty alternative it matches nothing in particular, and tells of its groups.
    const groups = (new RegExp(`${source}|`).exec('')?.length ?? 1) - 1
    return { pattern, groups }
  } catch (error) {
    return { error: (error as Error).message }
  }
}

/**
 * Puts what a pattern's groups matched in the place of `$1`, `$2`, … of a template, `$0` being the whole match.
 * A group that took no part is empty, and `missing` answers for a number that the pattern does not have.
 */
export function expandTemplate(
  template: string,
  groups: readonly (string | undefined)[],
  missing: (reference: string) => string,
): string {
  return template.replace(reference, (whole, braced: string | undefined, bare: string | undefined) => {
    const number = Number(braced ?? bare)
    return number < groups.length ? (groups[number] ?? '') : missing(whole)
  })
}

const reference = /\$(?:\{(\d+)\}|(\d+))/g
