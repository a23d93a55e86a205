import type { Problem } from './config.ts'

/** No configuration is told more problems, or more warnings, than this: the first are those that help. */
export const maxFindings = 100

/** A message quotes what was found, which can be of any length; it is cut here. */
export const maxTextCharacters = 1000

/** What one look at a configuration found, in its order. */
export interface Findings {
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
  /** No further problem would be told, so there is no use in looking on. */
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
  const told = { source, path: cut(path), message: cut(message) }
  list.push(allowed === undefined ? told : { ...told, allowed: cut(allowed) })
}

function cut(text: string): string {
  return text.length <= maxTextCharacters ? text : `${text.slice(0, maxTextCharacters)}…`
}

/**
 * The path of a field below the path of what holds it: `descriptors[2]` and `unit` make
 * `descriptors[2].unit`.
 */
export function fieldPath(path: string, field: string): string {
  return path === '' ? field : `${path}.${field}`
}
