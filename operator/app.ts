import { randomUUID } from 'node:crypto'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { brokerSessions } from './broker-queries/broker-session.ts'
import { createBrokers, type ExpectedBroker, shareLists } from './broker-queries/brokers.ts'
import { type BackendFailures, watchBackendFailures } from './infrastructure/backend-failures.ts'
import type { Infrastructure } from './infrastructure/provider.ts'
import { admitReplicas, watchRemovedReplicas } from './infrastructure/replicas.ts'
import type { RouteSecrets } from './kinds/animation-stream-route/route-secrets.ts'
import type { KindAdapter, Named } from './kinds/kind-adapter.ts'
import { type DomainGrants, listShared } from './kinds/rate-limit-config/rate-limit-config.ts'
import { type KindAdapters, openKindAdapters } from './kinds/registry.ts'
import { brokersViaLeader, feedStatesViaLeader, podSessionsViaLeader } from './leader/ask-leader.ts'
import { createFeedStates } from './leader/feed-states.ts'
import type { LeaderConnection } from './leader/leader-connection.ts'
import { leaderMethods } from './leader/leader-service.ts'
import type { Peers } from './leader/peers.ts'
import { type ServiceName, serviceNames } from './model.ts'
import { createSessionTable } from './pods/session-table.ts'
import { StreamLoads } from './pods/stream-loads.ts'
import { createPodSessions } from './ratelimit-queries/create-pod-sessions.ts'
import { processSessions } from './ratelimit-queries/process-session.ts'
import { SharingStates } from './ratelimit-queries/sharing-states.ts'
import { Feed } from './xds/feed.ts'

/** The controller of one kind of resource, from its source to its status. */
export interface Controller {
  /** Resolves when the present resources have been reconciled. Each change is followed from then on. */
  start(): Promise<void>
  /** Reconciles again, because something other than the resources may have changed. */
  trigger(): void
  stop(): Promise<void>
}

/** A controller whose contents the feed carries. */
export interface PublishedContents<Content> {
  /** Returns the contents that the feed carries, sorted by name. */
  inForce(): readonly Content[]
}

interface OperatorParts {
  readonly feed: Feed
  readonly loads: StreamLoads
  readonly backends: BackendFailures
}

/** Where an operator runs: one machine, or a Kubernetes cluster. */
export interface Environment<Kind extends Controller> {
  readonly infrastructure: Pick<Infrastructure, 'observe' | 'onChange'>
  readonly services: readonly ServiceName[]
  /** The tokens and keys that routes name. */
  readonly routeSecrets: RouteSecrets
  /** The namespaces that may use a domain, by the name of the domain. */
  readonly domainGrants?: DomainGrants
  /** The name by which clients of the feed verify this operator. Left out without TLS. */
  readonly operatorName?: string
  /** The acknowledgements that other operators report for their pods. Left out if there is one operator. */
  readonly peers?: Peers
  /**
   * The operator with the Lease, which answers for all rate limit processes and brokers. Left out if there is
   * one operator.
   */
  readonly leader?: Pick<LeaderConnection, 'current' | 'relay'>
  openKind<Content extends Named, Published extends object>(
    kind: KindAdapter<Content, Published>,
    parts: OperatorParts,
  ): Kind & PublishedContents<Content>
  openMerchants(parts: OperatorParts): Kind
  /** Starts the controllers in this order. Resolves when the feed may be served. */
  start(kinds: readonly Kind[]): Promise<void>
}

/** The controllers of the kinds whose contents the feed carries. */
type PublishedControllers<Kind> = {
  readonly [Name in keyof KindAdapters]: Kind &
    PublishedContents<KindAdapters[Name] extends KindAdapter<infer Content, infer _> ? Content : never>
}

/** An operator without its servers: the feed and the controllers that fill it. */
export type OperatorApp<Kind extends Controller> = ReturnType<typeof openApp<Kind>>

/** The controllers run only after `start`. */
export function openApp<Kind extends Controller>(environment: Environment<Kind>, log: Log) {
  const {
    infrastructure,
    services,
    domainGrants = new Map(),
    routeSecrets,
    operatorName,
    peers,
  } = environment
  const backends = watchBackendFailures({ infrastructure, workloads: services })
  const loads = new StreamLoads(operatorName === undefined ? {} : { operatorName })
  const sharing = new SharingStates({
    table: {
      sessions: () => opened.table.sessions(),
      lost: () => opened.table.lost(),
      expected: () => infrastructure.observe('ratelimit'),
    },
    domains: () => listShared(published.limits.inForce()),
    isLeader: () => environment.leader?.current() === undefined,
    clock: systemClock,
  })
  const feedKinds = openKindAdapters({ domainGrants, routeSecrets, loads, sharing })
  const listed = Object.entries<KindAdapter<Named, object>>(feedKinds)
  const typeUrls = listed.map(([, { typeUrl }]) => typeUrl)
  const feed = new Feed({
    typeUrls,
    ids: randomUUID,
    clock: systemClock,
    log,
    ...(peers && { remotePeers: peers }),
  })
  const isRemoved = watchRemovedReplicas(infrastructure, 'ratelimit')
  const opened = openSessions({ ...environment, feed, loads, isRemoved }, log)
  const { sessions, podSessions: pods, brokers, feedStates, closeSessions } = opened
  const parts = { feed, loads, backends }
  const published = Object.fromEntries(
    listed.map(([name, kind]) => [name, environment.openKind(kind, parts)]),
  ) as PublishedControllers<Kind>
  const kinds = [...Object.values<Kind>(published), environment.openMerchants(parts)]
  let stopping: Promise<void> | undefined

  async function stopAll(): Promise<void> {
    closeSessions()
    sharing.stop()
    for (const kind of kinds.toReversed()) await kind.stop()
    loads.stop()
    backends.stop()
  }

  return {
    ...parts,
    ...published,
    /** The type URLs of the feed, one for each kind of resource that it carries. */
    typeUrls,
    /** The sessions of the rate limit processes and brokers that are connected to this operator. */
    sessions,
    /** What the API answers from, whatever the environment is. */
    sources: {
      clock: systemClock,
      pods,
      brokers,
      feedStates,
      domainGrants,
      domains: () => published.limits.inForce(),
    },
    /** All controllers, in the order in which they start. */
    kinds,
    async start(): Promise<void> {
      for (const part of [feed, infrastructure, backends]) {
        part.onChange(() => {
          for (const { trigger } of kinds) trigger()
        })
      }
      for (const [name, { dependencies = [] }] of listed) {
        const { trigger } = published[name as keyof KindAdapters]
        for (const part of dependencies) part.onChange(trigger)
      }
      await environment.start(kinds)
      sharing.start()
    },
    /** Stops the controllers. A second call does nothing. */
    stop(): Promise<void> {
      stopping ??= stopAll()
      return stopping
    },
  }
}

interface SessionsEnvironment {
  readonly feed: Feed
  readonly loads: StreamLoads
  readonly peers?: Peers
  readonly leader?: Pick<LeaderConnection, 'current' | 'relay'>
  readonly operatorName?: string
  /** Whether the rate limit pod with this uid does not exist any more. */
  readonly isRemoved?: (uid: string) => boolean
  /** The replicas of the services. With an `operatorName`, only they may have sessions. */
  readonly infrastructure: { observe(workload: string): readonly ExpectedBroker[] }
}

/**
 * Creates the tables of sessions and the queries that use them. With a `leader`, the operator with the Lease
 * answers the queries.
 */
export function openSessions(
  { feed, loads, peers, leader, operatorName, isRemoved, infrastructure }: SessionsEnvironment,
  log: Log,
) {
  const clock = systemClock
  const admitReplicasOnly = (workload: ServiceName) => {
    const others = serviceNames.filter(name => name !== workload)
    return admitReplicas({ infrastructure, workload, others, admitsOthers: operatorName === undefined })
  }
  const rateLimitSessions = createSessionTable(processSessions(clock), {
    clock,
    log,
    isRemoved,
    admit: admitReplicasOnly('ratelimit'),
    relay: leader?.relay('PassRateLimitSession'),
  })
  const brokerSessionTable = createSessionTable(brokerSessions, {
    clock,
    log,
    admit: admitReplicasOnly('broker'),
    relay: leader?.relay('PassBrokerSession'),
  })
  const expected = () => infrastructure.observe('broker')
  const pods = createPodSessions({
    table: rateLimitSessions,
    expected: () => infrastructure.observe('ratelimit'),
    clock,
  })
  const brokers = shareLists(createBrokers({ sessions: brokerSessionTable.sessions, expected }), clock)
  const feedStates = createFeedStates(feed)
  const ofOperators =
    operatorName === undefined || peers === undefined
      ? []
      : leaderMethods({
          operatorName,
          peers,
          loads,
          rateLimitSessions,
          brokerSessions: brokerSessionTable,
          log,
          queried: { pods, brokers, feedStates },
        })
  return {
    sessions: {
      methods: [...rateLimitSessions.methods, ...brokerSessionTable.methods, ...ofOperators],
      close() {
        rateLimitSessions.close()
        brokerSessionTable.close()
      },
    },
    podSessions: leader === undefined ? pods : podSessionsViaLeader(pods, leader),
    brokers: leader === undefined ? brokers : shareLists(brokersViaLeader(brokers, leader), clock),
    feedStates: leader === undefined ? feedStates : feedStatesViaLeader(feedStates, leader),
    /**
     * Ends the subscriptions and the timers of `podSessions`. The sessions stay open until `sessions.close`.
     */
    closeSessions: pods.close,
    /** The sessions of the rate limit processes. */
    table: rateLimitSessions,
  }
}
