import type { ChooseRoute } from './choose-route.ts'
import type { Route } from './route.ts'

/**
 * Enforces the tokens of routes for all callers, whatever their source id. A producer chooses its source id
 * itself, so the tokens of a route with a prefix apply to every stream with that prefix, and those of a
 * route with a target and no prefix apply to every request with that target that no prefix matches.
 *
 * If the chosen route has no tokens of its own at the longest protected prefix, the returned route is the
 * chosen one with the tokens of all routes that protect that prefix. `guard` names the first of them.
 */
export function guardRoutes(routes: Iterable<Route>, choose: ChooseRoute): ChooseRoute {
  const guards = createGuards(routes)
  if (guards.isEmpty) return choose
  const guarded = new WeakMap<readonly Route[], Map<Route, Route>>()

  function guardBy(protectors: readonly Route[], chosen: Route): Route {
    const known = guarded.get(protectors) ?? new Map<Route, Route>()
    guarded.set(protectors, known)
    const tokenHashes = protectors.flatMap(route => route.tokenHashes)
    const route = known.get(chosen) ?? { ...chosen, tokenHashes, guard: protectors[0]?.name ?? '' }
    known.set(chosen, route)
    return route
  }

  return ids => {
    const chosen = choose(ids)
    const protectors = guards.find(ids.streamId, ids.targetObjectId, chosen)
    return protectors === undefined || protectors.includes(chosen) ? chosen : guardBy(protectors, chosen)
  }
}

/** Routes with tokens, by the prefix or the target that they protect. */
function createGuards(routes: Iterable<Route>) {
  const closed = [...routes].filter(({ tokenHashes }) => tokenHashes.length > 0)
  const byPrefix = Map.groupBy(closed, ({ match }) => match.streamIdPrefix)
  const byTarget = Map.groupBy(byPrefix.get('') ?? [], ({ match }) => match.targetObjectId)
  byPrefix.delete('')
  byTarget.delete('')
  const lengths = [...new Set([...byPrefix.keys()].map(({ length }) => length))].sort((a, b) => b - a)
  return {
    isEmpty: byPrefix.size === 0 && byTarget.size === 0,
    find(streamId: string, targetObjectId: string, { match }: Route): readonly Route[] | undefined {
      for (const length of lengths) {
        const found = length <= streamId.length ? byPrefix.get(streamId.slice(0, length)) : undefined
        if (found !== undefined) return found
      }
      // A prefix belongs to a namespace; routes of other namespaces cannot close its streams.
      return match.streamIdPrefix === '' ? byTarget.get(targetObjectId) : undefined
    },
  }
}
