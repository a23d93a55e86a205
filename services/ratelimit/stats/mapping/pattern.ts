import { setFlagsFromString } from 'node:v8'

// Names of statistics can contain values from callers, and a pattern that backtracks on such a name would
// stop the whole process. This engine of V8 takes linear time, as Go's does in envoyproxy/ratelimit, and
// rejects patterns that need more. A pattern uses the engine through the flag `l`; all other regular
// expressions are unaffected.
setFlagsFromString('--enable-experimental-regexp-engine')

export const maxPatternCharacters = 1000

/**
 * Syntax of Go's regular expressions that has no meaning or a different one in JavaScript. `(?P<name>…)` is
 * not included, because `compilePattern` translates it.
 */
const goOnly = /\\[AzQEC]|\[:\^?\w+:\]|\(\?[a-zA-Z-]+[:)]/

/**
 * Compiles a regular expression in the syntax of Go, which envoyproxy/ratelimit uses, as far as JavaScript
 * has the same syntax. The pattern is not anchored. `error` is the reason why the text is rejected.
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
    // With an empty alternative, the expression matches the empty text, and the length of the result shows
    // how many groups it has.
    const groups = (new RegExp(`${source}|`).exec('')?.length ?? 1) - 1
    return { pattern, groups }
  } catch (error) {
    return { error: (error as Error).message }
  }
}

/**
 * Replaces `$1`, `$2`, … of a template by the groups of a match; `$0` is the whole match. A group that took
 * no part in the match is empty. `missing` returns the text for a number that has no group.
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
