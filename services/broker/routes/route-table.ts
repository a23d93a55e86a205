import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log.ts'
import { checkType } from '@tollway/discovery/check-type.ts'
import { type ChooseRoute, createRouteChooser, type RouteIds } from './choose-route.ts'
import { decodeRoute } from './decode-route.ts'
import { guardRoutes } from './guard-routes.ts'
import type { Route } from './route.ts'

/** The type that a broker asks the operator for. */
export const streamRouteTypeUrl = 'type.googleapis.com/tollway.broker.v1.StreamRoute'

/** The routes in force. They change as a whole: whoever asks in one turn sees all of one load. */
export interface RouteTable {
  routes(): readonly Route[]
  /** The route that holds for a request now: `createRouteChooser` says which. */
  choose(ids: RouteIds): Route
  /** Calls back after each change, until the returned function is called. */
  onChange(listener: () => void): () => void
}

/** Resources of one response, as it holds them. */
export interface RouteResources {
  readonly typeUrl: string
  readonly resources: readonly { readonly typeUrl: string; readonly value: Uint8Array }[]
}

export interface FedRouteTable extends RouteTable {
  /**
   * Whether any load has succeeded. Before that requests of a route that asks for tokens would be open to all,
   * so that a broker with a feed takes no calls.
   */
  isLoaded(): boolean
  /**
   * Puts these routes in force, and no others; or, when anything in them is wrong, nothing. Answers every
   * problem, as `decodeRoute` tells it, up to a limit. The next one is to be loaded when this has resolved.
   */
  load(response: RouteResources): Promise<readonly string[]>
}

/** Of one load: the first are those that help. */
const maxProblems = 100
const maxLoggedProblems = 20
/** So long is decoded in one turn of the event loop; then messages have it. */
const sliceMs = 2

export function createRouteTable({ clock, log }: { clock: Clock; log: Log }): FedRouteTable {
  const listeners = new Set<() => void>()
  let routes: readonly Route[] = []
  let choose: ChooseRoute = createRouteChooser(routes)
  let loaded = false

  function enforce(next: readonly Route[]): void {
    routes = next
    choose = guardRoutes(next, createRouteChooser(next))
    loaded = true
    log.info('routes loaded', { routes: next.length })
    for (const listener of [...listeners]) listener()
  }

  function refuse(problems: readonly string[]): void {
    for (const problem of problems.slice(0, maxLoggedProblems))
      log.error(`the routes are refused: ${problem}`)
    const more = problems.length - maxLoggedProblems
    if (more > 0) log.error(`the routes are refused: ${more} problems more`)
  }

  return {
    routes: () => routes,
    choose: ids => choose(ids),
    isLoaded: () => loaded,
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    async load(response) {
      const read = await readRoutes(response, clock)
      if (read.problems.length > 0) refuse(read.problems)
      else enforce(read.routes)
      return read.problems
    },
  }
}

interface ReadRoutes {
  readonly routes: readonly Route[]
  readonly problems: readonly string[]
}

async function readRoutes({ typeUrl, resources }: RouteResources, clock: Clock): Promise<ReadRoutes> {
  const routes = new Map<string, Route>()
  const problems: string[] = problemOfType(typeUrl, 'response')
  let beganMs = clock.monotonicMs()
  for (const [index, { typeUrl: type, value }] of resources.entries()) {
    if (problems.length >= maxProblems) break
    const place = `resources[${index}]`
    const wrong = problemOfType(type, place)
    const decoded = wrong.length > 0 ? { problems: wrong } : decodeRoute(value, place)
    if ('problems' in decoded) problems.push(...decoded.problems)
    else if (routes.has(decoded.route.name)) problems.push(`${decoded.route.name}: is there twice`)
    else routes.set(decoded.route.name, decoded.route)
    if (clock.monotonicMs() - beganMs < sliceMs) continue
    await nextTurn()
    beganMs = clock.monotonicMs()
  }
  return { routes: [...routes.values()], problems: problems.slice(0, maxProblems) }
}

function problemOfType(found: string, place: string): string[] {
  try {
    checkType(found, streamRouteTypeUrl)
    return []
  } catch (error) {
    return [`${place}: ${(error as Error).message}`]
  }
}
