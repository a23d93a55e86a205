import { setFlagsFromString } from 'node:v8'

// Names of statistics can contain values from callers, and a pattern that backtracks on such a name would
// stop the whole process. This engine of V8 takes linear time, as the reference's does, and rejects patterns
// that need more. Patterns use it through the flag `l`; all other regular expressions are unaffected.
setFlagsFromString('--enable-experimental-regexp-engine')

/** The maximum length of a pattern or template. */
export const maxPatternCharacters = 1000

/** Go's syntax that has another meaning here, or none; `(?P<name>…)` is supported. */
const goOnly = /\\[AzQEC]|\[:\^?\w+:\]|\(\?[a-zA-Z-]+[:)]/

/**
 * Compiles a regular expression in the language of Go, which the reference uses, as far as both languages
 * agree; unanchored. The error is the reason.
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
    // With an empty alternative, the pattern matches the empty text, and the result has its groups.
    const groups = (new RegExp(`${source}|`).exec('')?.length ?? 1) - 1
    return { pattern, groups }
  } catch (error) {
    return { error: (error as Error).message }
  }
}

/**
 * Replaces `$1`, `$2`, … of a template by the groups of a match; `$0` is the whole match. A group that did
 * not participate is empty, and `missing` returns the text for a number without a group.
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
