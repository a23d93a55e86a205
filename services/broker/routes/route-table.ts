import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { checkType } from '@tollway/xds-client/discovery-session.ts'
import { type ChooseRoute, createRouteChooser, type RouteIds } from './choose-route.ts'
import { type DecodedRoute, decodeRoute } from './decode-route.ts'
import { guardRoutes } from './guard-routes.ts'
import type { Route } from './route.ts'

/** The type of the resources that a broker requests from the operator. */
export const routeTypeUrl = 'type.googleapis.com/tollway.broker.v1.StreamRoute'

/** One response of the management server. */
interface RouteResources {
  readonly typeUrl: string
  readonly resources: readonly { readonly typeUrl: string; readonly value: Uint8Array }[]
}

/** The limit of reported problems. */
const maxProblems = 100
const maxLoggedProblems = 20
/** How long one turn of the event loop decodes, about; messages are processed between turns. */
const sliceMs = 2

/**
 * The active routes. A load replaces all of them at once, so all calls in one turn of the event loop see the
 * same routes.
 */
export class RouteTable {
  readonly #clock: Clock
  readonly #log: Log
  readonly #listeners = new Set<() => void>()
  #routes: readonly Route[] = []
  #choose: ChooseRoute = createRouteChooser([])

  constructor({ clock, log }: { readonly clock: Clock; readonly log: Log }) {
    this.#clock = clock
    this.#log = log
  }

  routes(): readonly Route[] {
    return this.#routes
  }

  /** See `createRouteChooser`. */
  choose(ids: RouteIds): Route {
    return this.#choose(ids)
  }

  /** Adds a listener for changes, until the returned function is called. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /**
   * Replaces all routes, or changes nothing if any resource is invalid. Resolves with the problems of
   * `decodeRoute`, up to `maxProblems`. Await it before the next load.
   */
  async load(response: RouteResources): Promise<readonly string[]> {
    const { routes, problems } = await readRoutes(response, this.#clock)
    if (problems.length > 0) this.#logProblems(problems)
    else this.#enforce(routes)
    return problems
  }

  #enforce(routes: readonly Route[]): void {
    this.#routes = routes
    this.#choose = guardRoutes(routes, createRouteChooser(routes))
    this.#log.info('load routes', { routes: routes.length })
    for (const listener of [...this.#listeners]) listener()
  }

  #logProblems(problems: readonly string[]): void {
    for (const reason of problems.slice(0, maxLoggedProblems)) {
      this.#log.error('load routes failed', { reason })
    }
    const more = problems.length - maxLoggedProblems
    if (more > 0) this.#log.error('load routes failed', { reason: `${more} more problems` })
  }
}

interface ReadRoutes {
  readonly routes: readonly Route[]
  readonly problems: readonly string[]
}

async function readRoutes({ typeUrl, resources }: RouteResources, clock: Clock): Promise<ReadRoutes> {
  const routes = new Map<string, Route>()
  const responseProblem = findTypeProblem(typeUrl, 'response')
  const problems = responseProblem === undefined ? [] : [responseProblem]
  let beganMs = clock.monotonicMs()
  for (const [index, { typeUrl: type, value }] of resources.entries()) {
    if (problems.length >= maxProblems) break
    const label = `resources[${index}]`
    const typeProblem = findTypeProblem(type, label)
    const decoded: DecodedRoute =
      typeProblem === undefined ? decodeRoute(value, label) : { kind: 'invalid', problems: [typeProblem] }
    if (decoded.kind === 'invalid') problems.push(...decoded.problems)
    else if (routes.has(decoded.route.name)) {
      problems.push(`${decoded.route.name}: expected one resource with this name, got two`)
    } else routes.set(decoded.route.name, decoded.route)
    if (clock.monotonicMs() - beganMs < sliceMs) continue
    await nextTurn()
    beganMs = clock.monotonicMs()
  }
  return { routes: [...routes.values()], problems: problems.slice(0, maxProblems) }
}

function findTypeProblem(found: string, label: string): string | undefined {
  try {
    checkType(found, routeTypeUrl)
    return undefined
  } catch (error) {
    return `${label}: ${(error as Error).message}`
  }
}
