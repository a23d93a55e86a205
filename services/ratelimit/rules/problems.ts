import type { ConfigProblem } from './model.ts'

/**
 * At most this many problems, and as many warnings, of one pass are listed. The first ones are the most
 * useful.
 */
export const maxFindingsOfKind = 100

/**
 * A path, a message or a list of allowed values is cut to this length, because it can quote values of any
 * length.
 */
const maxTextCharacters = 1000

/** The problems and warnings of one pass over configurations, in the order in which they were found. */
export interface Findings {
  readonly problems: readonly ConfigProblem[]
  readonly warnings: readonly ConfigProblem[]
  /** Returns true when further problems would be dropped, so that the pass can end. */
  isFull(): boolean
  problem(source: string, path: string, message: string, allowed?: string): void
  warn(source: string, path: string, message: string, allowed?: string): void
}

export function createFindings(): Findings {
  const problems: ConfigProblem[] = []
  const warnings: ConfigProblem[] = []
  return {
    problems,
    warnings,
    isFull: () => problems.length > maxFindingsOfKind,
    problem: (source, path, message, allowed) => add(problems, source, path, message, allowed),
    warn: (source, path, message, allowed) => add(warnings, source, path, message, allowed),
  }
}

function add(list: ConfigProblem[], source: string, path: string, message: string, allowed?: string): void {
  if (list.length > maxFindingsOfKind) return
  if (list.length === maxFindingsOfKind) {
    list.push({
      source,
      path: '',
      message: `more than ${maxFindingsOfKind} findings; the rest is not listed`,
    })
    return
  }
  const finding = { source, path: truncate(path), message: truncate(message) }
  list.push(allowed === undefined ? finding : { ...finding, allowed: truncate(allowed) })
}

function truncate(text: string): string {
  return text.length <= maxTextCharacters ? text : `${text.slice(0, maxTextCharacters)}…`
}

/** Joins the path of a parent and a field: `descriptors[2]` and `unit` give `descriptors[2].unit`. */
export function joinPath(path: string, field: string): string {
  return path === '' ? field : `${path}.${field}`
}

/**
 * Formats a problem in one line: `<source>: <message>` as envoyproxy/ratelimit does, then the path and the
 * allowed values if they are known. Control characters are escaped as `\u{a}`.
 */
export function formatProblem({ source, path, message, allowed }: ConfigProblem): string {
  const known = [path !== '' && `at ${path}`, allowed !== undefined && `allowed: ${allowed}`].filter(Boolean)
  const hint = known.length > 0 ? ` (${known.join('; ')})` : ''
  return escapeControls(`${source}: ${message}${hint}`)
}

/** Characters that would break a line, or overwrite it in a terminal, and unpaired surrogates. */
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

/** Formats text from a configuration or a request in one line: control characters are escaped as `\u{1b}`. */
export function escapeControls(text: string): string {
  return text.replace(unprintable, character => `\\u{${character.codePointAt(0)?.toString(16)}}`)
}
