import type { Problem } from '../rate-limit-domain.ts'

/** The most problems, and the most warnings, of one configuration: the first ones are the most useful. */
export const maxFindings = 100

/** A message quotes values of any length; it is truncated here. */
export const maxTextCharacters = 1000

/** The findings of one pass over a configuration, in its order. */
export interface Findings {
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
  /** Returns true when further problems would be dropped, so that the pass can end. */
  isFull(): boolean
  problem(source: string, path: string, message: string, allowed?: string): void
  warn(source: string, path: string, message: string, allowed?: string): void
}

export function createFindings(): Findings {
  const problems: Problem[] = []
  const warnings: Problem[] = []
  return {
    problems,
    warnings,
    isFull: () => problems.length > maxFindings,
    problem: (source, path, message, allowed) => add(problems, source, path, message, allowed),
    warn: (source, path, message, allowed) => add(warnings, source, path, message, allowed),
  }
}

function add(list: Problem[], source: string, path: string, message: string, allowed?: string): void {
  if (list.length > maxFindings) return
  if (list.length === maxFindings) {
    list.push({ source, path: '', message: `more than ${maxFindings} findings; the rest is not listed` })
    return
  }
  const finding = { source, path: cut(path), message: cut(message) }
  list.push(allowed === undefined ? finding : { ...finding, allowed: cut(allowed) })
}

function cut(text: string): string {
  return text.length <= maxTextCharacters ? text : `${text.slice(0, maxTextCharacters)}…`
}

/** Joins the path of a parent and a field: `descriptors[2]` and `unit` give `descriptors[2].unit`. */
export function fieldPath(path: string, field: string): string {
  return path === '' ? field : `${path}.${field}`
}
