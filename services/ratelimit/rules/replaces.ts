import type { Match } from './match.ts'

const none: ReadonlySet<string> = new Set()

/**
 * Returns the names of the limits that do not apply to a request, given the matches of all its descriptors:
 * those that another matched limit replaces, even if that one is unlimited or replaced itself. A limit with
 * such a name is treated as no match, except an unlimited one, which cannot be replaced. The empty name is
 * never included.
 */
export function findReplacedNames(matches: readonly (Match<unknown> | undefined)[]): ReadonlySet<string> {
  let names: Set<string> | undefined
  for (const found of matches) {
    if (found === undefined || found.limit.replaces.length === 0) continue
    names ??= new Set()
    for (const name of found.limit.replaces) names.add(name)
  }
  return names ?? none
}
