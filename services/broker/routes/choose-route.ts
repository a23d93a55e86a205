import { defaultRoute, type Route, type RouteMatch } from './route.ts'

/** What of a request decides on its route; empty where the request does not say it. */
export interface RouteIds {
  readonly sourceServiceId: string
  readonly streamId: string
  readonly targetObjectId: string
}

/** The route that holds for a request; `defaultRoute` when none matches. */
export type ChooseRoute = (ids: RouteIds) => Route

/**
 * Of the routes that match a request the most specific one holds:
 *
 * 1. that with the longest stream id prefix, since a prefix belongs to a namespace: what its owner asks for, a
 *    token for example, must hold against the routes of all others;
 * 2. of those, that whose match fills more of its other fields;
 * 3. of those, the oldest;
 * 4. of those, the first by name, in the order of UTF-16 units.
 *
 * Made once for a list of routes; a choice then costs as much as there are different lengths of prefixes,
 * however many routes there are.
 */
export function createRouteChooser(routes: Iterable<Route>): ChooseRoute {
  const bySource = new Map<string, Map<string, PrefixTable>>()
  for (const route of routes) {
    const { sourceServiceId, targetObjectId } = route.match
    const byTarget = getOrAdd(bySource, sourceServiceId, () => new Map<string, PrefixTable>())
    addRoute(getOrAdd(byTarget, targetObjectId, createPrefixTable), route)
  }
  return ({ sourceServiceId, streamId, targetObjectId }) => {
    let best: Route | undefined
    for (const source of valuesThatMatch(sourceServiceId)) {
      const byTarget = bySource.get(source)
      if (byTarget === undefined) continue
      for (const target of valuesThatMatch(targetObjectId)) {
        const found = findLongest(byTarget.get(target), streamId)
        if (found !== undefined && (best === undefined || precedes(found, best))) best = found
      }
    }
    return best ?? defaultRoute
  }
}

/** Routes that differ only in their prefix; of equal ones the first by precedence. */
interface PrefixTable {
  readonly byPrefix: Map<string, Route>
  /** Of the prefixes, the longest first. */
  readonly lengths: number[]
}

const createPrefixTable = (): PrefixTable => ({ byPrefix: new Map(), lengths: [] })

function addRoute({ byPrefix, lengths }: PrefixTable, route: Route): void {
  const prefix = route.match.streamIdPrefix
  const known = byPrefix.get(prefix)
  if (known === undefined || precedes(route, known)) byPrefix.set(prefix, route)
  if (lengths.includes(prefix.length)) return
  lengths.push(prefix.length)
  lengths.sort((a, b) => b - a)
}

function findLongest(table: PrefixTable | undefined, streamId: string): Route | undefined {
  if (table === undefined) return undefined
  for (const length of table.lengths) {
    const found = length <= streamId.length ? table.byPrefix.get(streamId.slice(0, length)) : undefined
    if (found !== undefined) return found
  }
  return undefined
}

/** What a field of a match may hold for this id. */
const valuesThatMatch = (id: string) => (id === '' ? [''] : [id, ''])

function precedes(route: Route, other: Route): boolean {
  const prefix = route.match.streamIdPrefix.length - other.match.streamIdPrefix.length
  if (prefix !== 0) return prefix > 0
  const fields = countFields(route.match) - countFields(other.match)
  if (fields !== 0) return fields > 0
  if (route.createdMs !== other.createdMs) return route.createdMs < other.createdMs
  return route.name < other.name
}

function countFields({ sourceServiceId, targetObjectId }: RouteMatch): number {
  return Number(sourceServiceId !== '') + Number(targetObjectId !== '')
}

function getOrAdd<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}
