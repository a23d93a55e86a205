import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { checkType } from '@tollway/discovery/discovery-session.ts'
import { type ChooseRoute, createRouteChooser, type RouteIds } from './choose-route.ts'
import { decodeRoute } from './decode-route.ts'
import { guardRoutes } from './guard-routes.ts'
import type { Route } from './route.ts'

/** The resource type that a broker requests from the operator. */
export const streamRouteTypeUrl = 'type.googleapis.com/tollway.broker.v1.StreamRoute'

/**
 * The routes in effect. They change atomically: all calls in one turn of the event loop see the same load.
 */
export interface RouteTable {
  routes(): readonly Route[]
  /** The route of a request; see `createRouteChooser`. */
  choose(ids: RouteIds): Route
  /** Calls back after each change, until the returned function is called. */
  onChange(listener: () => void): () => void
}

/** The resources of one response. */
export interface RouteResources {
  readonly typeUrl: string
  readonly resources: readonly { readonly typeUrl: string; readonly value: Uint8Array }[]
}

export interface FedRouteTable extends RouteTable {
  /**
   * Replaces all routes, or changes nothing if anything is invalid. Returns every problem, as `decodeRoute`
   * reports it, up to a limit. Callers wait for the result before the next load.
   */
  load(response: RouteResources): Promise<readonly string[]>
}

/** The maximum number of problems of one load. */
const maxProblems = 100
const maxLoggedProblems = 20
/** The time for decoding in one turn of the event loop; messages are processed between turns. */
const sliceMs = 2

export function createRouteTable({ clock, log }: { clock: Clock; log: Log }): FedRouteTable {
  const listeners = new Set<() => void>()
  let routes: readonly Route[] = []
  let choose: ChooseRoute = createRouteChooser(routes)

  function enforce(next: readonly Route[]): void {
    routes = next
    choose = guardRoutes(next, createRouteChooser(next))
    log.info('routes loaded', { routes: next.length })
    for (const listener of [...listeners]) listener()
  }

  function refuse(problems: readonly string[]): void {
    for (const problem of problems.slice(0, maxLoggedProblems)) log.error(`reject the routes: ${problem}`)
    const more = problems.length - maxLoggedProblems
    if (more > 0) log.error(`reject the routes: ${more} more problems`)
  }

  return {
    routes: () => routes,
    choose: ids => choose(ids),
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
