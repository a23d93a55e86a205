import type { Problem } from '../rate-limit-domain.ts'
import { printable } from './printable.ts'

/**
 * Formats a problem in one line: the reference's form `<source>: <message>`, then the path and the allowed
 * values as far as they are known, which the reference does not report. Control characters are escaped as
 * `\u{a}`.
 */
export function formatProblem({ source, path, message, allowed }: Problem): string {
  const known = [path !== '' && `at ${path}`, allowed !== undefined && `allowed: ${allowed}`].filter(Boolean)
  const hint = known.length > 0 ? ` (${known.join('; ')})` : ''
  return printable(`${source}: ${message}${hint}`)
}
