import { silentLog } from '@tollway/chassis/log/log.ts'
import type { GrpcClient } from '@tollway/grpc/client/client.ts'
import type { Configuration } from '../../../services/ratelimit/config/configuration.ts'
import { createConfiguration } from '../../../services/ratelimit/config/configuration.ts'
import { subscribe } from '../../../services/ratelimit/config/open-feed.ts'
// Loaded here, because a pod that loaded it in a run would wait for the file system.
import '../../../services/ratelimit/config/read-resources.ts'
import { listLimits } from '../../../services/ratelimit/rules/compile.ts'
import { type Feature, features } from '../../../services/ratelimit/rules/fields.ts'
import { createLimitStats } from '../../../services/ratelimit/stats/limit-stats.ts'
import { createStats } from '../../../services/ratelimit/stats/stats.ts'
import type { Subscription } from '../../../services/xds-client/discovery-session.ts'
import { FeedConnection } from '../../../services/xds-client/feed-connection.ts'
import { XdsFeed } from '../../../services/xds-client/xds-feed.ts'
import type { Network } from '../engine/network.ts'
import type { SimulatedProcess } from '../engine/simulation.ts'

/** What distinguishes the pods of a world. */
export interface PodKind {
  readonly name: string
  /** A feature that the pod does not know, as one of an older version. */
  readonly lacks?: Feature
  /** A feature that the pod knows and cannot enforce, as with a backend that lacks it. */
  readonly rejects?: Feature
}

/** The parts of a pod that a defect may replace. */
export interface PodParts {
  /** Returns what a pod does with a response. */
  subscribe(configuration: Configuration): Subscription
  /** Returns the client with which a pod opens its stream. */
  connect(client: GrpcClient): GrpcClient
}

export const podParts: PodParts = { subscribe, connect: client => client }

/** A pod that was started, and what it enforces. */
export interface RateLimitPod {
  readonly kind: PodKind
  readonly life: number
  /**
   * Each active domain with the numbers of its limits, in order; empty before the first configuration. All
   * limits of one version of a resource have the same number here.
   */
  active: ReadonlyMap<string, readonly number[]>
}

/** The times that the operator sets for its pods. */
const podTimes = {
  connectRetryMs: 200,
  backoff: { initialMs: 200, maxMs: 3_000, factor: 1.5, jitter: 0.5 },
  keepaliveMs: 6_000,
}

class SimulatedConnection extends FeedConnection {
  readonly #client: GrpcClient

  constructor(client: GrpcClient) {
    super({ server: 'operators:18000' })
    this.#client = client
  }

  override client(): GrpcClient {
    return this.#client
  }

  override close(): void {
    this.#client.close()
  }
}

interface PodOptions {
  readonly network: Network
  readonly parts: PodParts
  /** Returns the operator to connect to; undefined if none runs. */
  readonly resolve: () => string | undefined
  readonly onLoad: (pod: RateLimitPod) => void
}

/** Runs the client of the feed and the configuration of a rate limit pod in a process. */
export function runRateLimitPod(process: SimulatedProcess, kind: PodKind, options: PodOptions): RateLimitPod {
  const { network, parts, resolve, onLoad } = options
  const { name, lacks, rejects } = kind
  const stats = createStats()
  const configuration = createConfiguration({
    stats,
    limitStats: createLimitStats(stats, () => {}),
    log: silentLog,
    mergeDomainConfigs: false,
    spelling: 'camel',
    inlineBytes: Number.POSITIVE_INFINITY,
    findObstacle: async needed =>
      rejects !== undefined && needed.includes(rejects) ? `${rejects}: this backend lacks it` : '',
  })
  const pod: RateLimitPod = { kind, life: process.life, active: new Map() }
  configuration.onLoad(() => {
    const rules = configuration.rules()
    const active = new Map<string, number[]>([...(rules?.domains.keys() ?? [])].map(domain => [domain, []]))
    for (const { fullKey, requestsPerUnit } of rules ? listLimits(rules) : []) {
      active.get(fullKey.split('.')[0] ?? '')?.push(requestsPerUnit)
    }
    pod.active = active
    process.note(`enforces ${describeActive(active)}`)
    onLoad(pod)
  })
  const known = features.filter(feature => feature !== lacks)
  const feed = new XdsFeed({
    ...parts.subscribe(configuration),
    connection: new SimulatedConnection(
      parts.connect(network.client(process, resolve, podTimes.keepaliveMs)),
    ),
    nodeId: name,
    nodeMetadata: new Map([
      ['uid', name],
      ['pod', `${name} ${process.life}`],
      ['tollway.features', known.join(',')],
    ]),
    connectRetryMs: podTimes.connectRetryMs,
    backoff: podTimes.backoff,
    random: () => process.random(),
    clock: process.clock,
    log: silentLog,
  })
  feed.start()
  return pod
}

export function describeActive(active: ReadonlyMap<string, readonly number[]>): string {
  const texts = [...active]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([domain, numbers]) => {
      return `${domain}:${[...new Set(numbers)].join('+')}`
    })
  return texts.join(' ') || 'nothing'
}
