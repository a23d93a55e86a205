import type { Match } from './match.ts'

const none: ReadonlySet<string> = new Set()

/**
 * Returns the names of the limits that do not apply to a request, given the matches of all its descriptors:
 * the names in `replaces` of every matched limit, even of an unlimited or a replaced one. A limit with such a
 * name is treated as no match; only an unlimited limit cannot be replaced. The empty name is never included.
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
