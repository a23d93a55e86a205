import type { Problem } from './config.ts'
import { printable } from './printable.ts'

/**
 * A problem in one line, in the reference's form `<source>: <message>`, and then what the reference does not
 * say: where it stands and what would be right, as far as they are known. Control characters are escaped, as
 * `\u{a}`.
 */
export function formatProblem({ source, path, message, allowed }: Problem): string {
  const known = [path !== '' && `at ${path}`, allowed !== undefined && `allowed: ${allowed}`].filter(Boolean)
  const hint = known.length > 0 ? ` (${known.join('; ')})` : ''
  return printable(`${source}: ${message}${hint}`)
}
