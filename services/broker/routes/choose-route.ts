import { getOrAdd } from '@tollway/chassis/get-or-add.ts'
import { defaultRoute, type Route, type RouteMatch } from './route.ts'

/** These fields of a request select its route. An absent one is empty. */
export interface RouteIds {
  readonly sourceServiceId: string
  readonly streamId: string
  readonly targetObjectId: string
}

/** Returns the route of a request; `defaultRoute` if none matches. */
export type ChooseRoute = (ids: RouteIds) => Route

/**
 * Chooses the most specific route that matches a request:
 *
 * 1. the routes with the longest stream id prefix. A prefix belongs to a namespace, so what its owner
 * requires, for example a token, takes precedence over the routes of others;
 * 2. of these, the routes whose match sets the most other fields;
 * 3. of these, the oldest;
 * 4. of these, the first by name, in the order of UTF-16 units.
 *
 * The cost of a choice grows with the number of different prefix lengths, not of routes.
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
    for (const source of listMatchingValues(sourceServiceId)) {
      const byTarget = bySource.get(source)
      if (byTarget === undefined) continue
      for (const target of listMatchingValues(targetObjectId)) {
        const found = findLongest(byTarget.get(target), streamId)
        if (found !== undefined && (best === undefined || precedes(found, best))) best = found
      }
    }
    return best ?? defaultRoute
  }
}

/**
 * Routes that differ only in their prefix. Of routes with the same prefix, the table has only the one that
 * takes precedence.
 */
interface PrefixTable {
  readonly byPrefix: Map<string, Route>
  /** The lengths of the prefixes, the longest first. */
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

/** Returns the values of a match field that match this id. */
const listMatchingValues = (id: string) => (id === '' ? [''] : [id, ''])

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
