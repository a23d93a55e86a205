import { randomUUID } from 'node:crypto'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { RateLimitDomain } from '@tollway/ratelimit/rules/config.ts'
import { type BackendFailures, watchBackendFailures } from './infrastructure/backend-failures.ts'
import type { Infrastructure } from './infrastructure/provider.ts'
import type { ServiceName, StreamRoute } from './ir.ts'
import { animationStreamRoutes } from './kinds/animation-stream-route/animation-stream-route.ts'
import { streamRouteTypeUrl } from './kinds/animation-stream-route/encode-stream-route.ts'
import type { RouteSecrets } from './kinds/animation-stream-route/route-secrets.ts'
import type { FedKind, Named } from './kinds/fed-kind.ts'
import { rateLimitTypeUrl } from './kinds/rate-limit-config/encode-rate-limit-domain.ts'
import { rateLimitConfigs } from './kinds/rate-limit-config/rate-limit-config.ts'
import { createStreamLoads, type StreamLoads } from './xds/loads/stream-loads.ts'
import type { Peers } from './xds/peers/peers.ts'
import { createFeed, type Feed } from './xds/server.ts'

/** The controller of one kind of resource, from its source to its status. */
export interface Controller {
  /** Resolves when the present resources have been reconciled. Each change is followed from then on. */
  start(): Promise<void>
  /** Reconciles again: something beside the resources may have changed. */
  trigger(): void
  stop(): Promise<void>
}

/** A controller whose contents the feed carries. */
export interface FedController<Content> {
  /** Returns what the feed carries, in the order of the names. */
  inForce(): readonly Content[]
}

/** The parts that an environment uses for its controllers. */
export interface AppParts {
  readonly feed: Feed
  readonly loads: StreamLoads
  readonly backends: BackendFailures
}

/** The place where an operator runs: one machine, or a Kubernetes cluster. */
export interface Environment<Kind extends Controller> {
  readonly infrastructure: Pick<Infrastructure, 'observe' | 'onChange'>
  /** The services that run here. */
  readonly services: readonly ServiceName[]
  /** The tokens and keys that routes name. */
  readonly routeSecrets: RouteSecrets
  /** The namespaces that may use a domain, by its name. */
  readonly domainGrants?: ReadonlyMap<string, readonly string[]>
  /** The name by which clients of the feed verify this operator. Left out without TLS. */
  readonly operatorName?: string
  /** The acknowledgements of other operators' pods. Left out if there is one operator. */
  readonly peers?: Peers
  openKind<Content extends Named, Fed extends object>(
    kind: FedKind<Content, Fed>,
    parts: AppParts,
  ): Kind & FedController<Content>
  openMerchants(parts: AppParts): Kind
  /** Starts the controllers in this order. Resolves when the feed may be served. */
  start(kinds: readonly [limits: Kind, routes: Kind, merchants: Kind]): Promise<void>
}

/** An operator without its servers: the feed and the controllers that fill it. */
export interface App<Kind extends Controller> extends AppParts {
  /** The types of the feed. */
  readonly typeUrls: readonly string[]
  readonly limits: Kind & FedController<RateLimitDomain>
  readonly routes: Kind & FedController<StreamRoute>
  readonly merchants: Kind
  /** All controllers, in the order of their start. */
  readonly kinds: readonly [Kind, Kind, Kind]
  start(): Promise<void>
  /** Stops the controllers. A second call does nothing. */
  stop(): Promise<void>
}

/** Opens the parts that every operator has. */
export function openApp<Kind extends Controller>(environment: Environment<Kind>, log: Log): App<Kind> {
  const { infrastructure, services, routeSecrets, operatorName, peers } = environment
  const backends = watchBackendFailures({ infrastructure, workloads: services })
  const loads = createStreamLoads(operatorName === undefined ? {} : { operatorName })
  const typeUrls = [rateLimitTypeUrl, streamRouteTypeUrl]
  const feed = createFeed({
    typeUrls,
    ids: randomUUID,
    clock: systemClock,
    log,
    ...(peers && { elsewhere: peers }),
  })
  const parts = { feed, loads, backends }
  const limits = environment.openKind(rateLimitConfigs(environment.domainGrants), parts)
  const routes = environment.openKind(
    animationStreamRoutes({ secrets: routeSecrets, loadOf: loads.of }),
    parts,
  )
  const merchants = environment.openMerchants(parts)
  const kinds = [limits, routes, merchants] as const
  let stopping: Promise<void> | undefined

  async function stopAll(): Promise<void> {
    for (const kind of kinds.toReversed()) await kind.stop()
    loads.stop()
    backends.stop()
  }

  return {
    ...parts,
    typeUrls,
    limits,
    routes,
    merchants,
    kinds,
    async start() {
      for (const part of [feed, infrastructure, backends]) {
        part.onChange(() => {
          for (const { trigger } of kinds) trigger()
        })
      }
      loads.onChange(routes.trigger)
      routeSecrets.onChange(routes.trigger)
      await environment.start(kinds)
    },
    stop() {
      stopping ??= stopAll()
      return stopping
    },
  }
}
