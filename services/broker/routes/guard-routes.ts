import { getOrAdd } from '@tollway/chassis/get-or-add.ts'
import type { ChooseRoute } from './choose-route.ts'
import { type Route, type RouteRight, routeRights } from './route.ts'

/**
 * Enforces the tokens of routes for all callers: a producer chooses its source id itself. The tokens of a
 * route with a prefix apply to every stream with that prefix. The tokens of a route with a target and no
 * prefix apply to every request with that target for which no route with a prefix is chosen.
 *
 * If other routes than the chosen one protect a request, the result is the chosen route with the tokens of
 * all of these, and `guards` names the first. Pushes and pulls are protected separately, each by the routes
 * that have tokens for them.
 */
export function guardRoutes(routes: Iterable<Route>, choose: ChooseRoute): ChooseRoute {
  const all = [...routes]
  const guards = { push: createGuards(all, 'push'), pull: createGuards(all, 'pull') }
  if (guards.push.isEmpty && guards.pull.isEmpty) return choose
  /** The results: by the chosen route, the routes that protect pushes, and the routes that protect pulls. */
  const guarded = new Map<Route, Map<Protectors, Map<Protectors, Route>>>()

  return ids => {
    const chosen = choose(ids)
    const findProtectors = (right: RouteRight) => {
      const found = guards[right].find(ids.streamId, ids.targetObjectId, chosen)
      return found?.includes(chosen) === true ? undefined : found
    }
    const [push, pull] = [findProtectors('push'), findProtectors('pull')]
    if (push === undefined && pull === undefined) return chosen
    const byPull = getOrAdd(
      getOrAdd(guarded, chosen, newMap<Protectors, Map<Protectors, Route>>),
      push,
      newMap<Protectors, Route>,
    )
    return getOrAdd(byPull, pull, () => guardBy(chosen, { push, pull }))
  }
}

type Protectors = readonly Route[] | undefined

const newMap = <K, V>() => new Map<K, V>()

function guardBy(chosen: Route, protectors: Readonly<Record<RouteRight, Protectors>>): Route {
  const collectTokens = (right: RouteRight) =>
    protectors[right]?.flatMap(({ tokens }) => tokens[right]) ?? chosen.tokens[right]
  const guards = Object.fromEntries(
    routeRights.flatMap(right => {
      const [first] = protectors[right] ?? []
      return first === undefined ? [] : [[right, first.name]]
    }),
  )
  return { ...chosen, tokens: { push: collectTokens('push'), pull: collectTokens('pull') }, guards }
}

/** Finds the routes that protect a prefix or, if there are none, a target. */
function createGuards(routes: readonly Route[], right: RouteRight) {
  const closed = routes.filter(({ tokens }) => tokens[right].length > 0)
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
      // A prefix belongs to a namespace: routes of other namespaces must not protect its streams.
      return match.streamIdPrefix === '' ? byTarget.get(targetObjectId) : undefined
    },
  }
}
