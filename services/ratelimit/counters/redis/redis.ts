import type { LimitCheck, LimitOutcome } from '../admission/limit-check.ts'
import { formatEndpoint } from '../connections/connect-socket.ts'
import type { Channel, ChannelListener, Hit } from '../counters.ts'
import { Channels } from './channels.ts'
import { RedisClusterCounters } from './cluster/redis-cluster.ts'
import { parseLogin, parseRedisAddress, type RedisAddress, type RedisLogin } from './redis-address.ts'
import { RedisBucketShares } from './redis-bucket-shares.ts'
import { RedisNode } from './redis-node.ts'
import { RedisReservations } from './redis-reservations.ts'
import {
  createRedisSetup,
  findScriptObstacle,
  type RedisCounters,
  type RedisCountersOptions,
  type RedisSetup,
} from './redis-setup.ts'
import { SentinelWatch } from './sentinel-watch.ts'

/**
 * Counters in Redis. Each hit is an `INCRBY`; this process's first touch of a key also writes an `EXPIRE`,
 * see `createIncrementSender`. One connection to each master carries all calls: those of one turn of the
 * event loop share one write, or a few (`hitsPerWrite`). A second connection would only make the writes
 * smaller.
 *
 * Connects at once, and reconnects with delays that grow to half a second. While no connection has answered a
 * PING, `add` rejects immediately with the reason; no hit is kept for later, and none is sent twice.
 *
 * @throws Error when the address cannot be parsed.
 */
export function createRedisCounters(options: RedisCountersOptions): RedisCounters {
  const { type = 'single', url, socketType = 'tcp', auth = '', sentinelAuth = '' } = options
  const address = parseRedisAddress({ type, url, socketType, auth })
  const setup = createRedisSetup(options, address)
  if (address.type === 'cluster') return new RedisClusterCounters(setup, address.seeds)
  if (address.type === 'sentinel') return createSentinelCounters(setup, address, parseLogin(sentinelAuth))
  const connection = setup.openConnection(formatEndpoint(address.endpoint), { endpoint: address.endpoint })
  return new SingleRedisCounters(setup, new RedisNode(connection, setup.limits))
}

/**
 * Counters in the Redis that the sentinels report as the master, provided that its reply to ROLE confirms it.
 * The sentinels are asked again at once when the connection to the master is lost or when it replies
 * READONLY, as a replica does.
 */
function createSentinelCounters(
  setup: RedisSetup,
  { master, sentinels }: RedisAddress & { readonly type: 'sentinel' },
  sentinelLogin: RedisLogin,
): RedisCounters {
  const { openConnection, limits, newBackoff, random, transport } = setup
  const connection = openConnection(master, { masterOnly: true })
  const watch = new SentinelWatch({
    master,
    sentinels,
    session: { ...sentinelLogin, ...transport },
    newBackoff,
    onMaster: endpoint => connection.moveTo(endpoint),
    isServing: () => connection.healthy,
    random,
  })
  connection.onHealth(healthy => {
    if (!healthy) watch.refreshSoon()
  })
  const node = new RedisNode(connection, limits, {
    problem: () => (connection.endpoint === undefined ? watch.problem : connection.problem),
    onErrorReply(text) {
      if (text.startsWith('READONLY')) connection.renew(text)
    },
  })
  return new SingleRedisCounters(setup, node, watch)
}

class SingleRedisCounters implements RedisCounters {
  readonly reservations: RedisReservations
  readonly #node: RedisNode
  readonly #stopWhenOver: boolean
  readonly #watch: SentinelWatch | undefined
  readonly #monotonicMs: () => number
  readonly #channels: Channels

  constructor(setup: RedisSetup, node: RedisNode, watch?: SentinelWatch) {
    this.#node = node
    this.reservations = new RedisReservations({
      run: run => node.runReservation(run),
      runIndex: run => node.runLedgerIndex(run),
    })
    this.#stopWhenOver = setup.stopWhenOver
    this.#watch = watch
    this.#monotonicMs = () => setup.limits.clock.monotonicMs()
    this.#channels = new Channels(setup, () => node.connection)
  }

  get healthy(): boolean {
    return this.#node.connection.healthy
  }

  get problem(): string {
    return this.healthy ? '' : this.#node.problem()
  }

  onHealth(listener: (healthy: boolean) => void): void {
    this.#node.connection.onHealth(listener)
  }

  add(batch: readonly Hit[]): Promise<readonly number[]> {
    return this.#stopWhenOver ? this.#node.addUnlessOver(batch) : this.#node.add(batch)
  }

  admit(checks: readonly LimitCheck[]): Promise<readonly LimitOutcome[]> {
    return this.#node.admit(checks)
  }

  findObstacle(keyPrefix: string, features: readonly string[]): Promise<string> {
    return findScriptObstacle(this, keyPrefix, features)
  }

  openChannel(name: string, listener: ChannelListener): Channel {
    return this.#channels.open(name, listener)
  }

  openBucketShares(keyPrefix: string): RedisBucketShares {
    const run: RedisNode['runBucketShares'] = each => this.#node.runBucketShares(each)
    return new RedisBucketShares({ keyPrefix, run, monotonicMs: this.#monotonicMs })
  }

  async close(): Promise<void> {
    await Promise.all([this.#node.close(), this.#watch?.close(), this.#channels.close()])
  }
}
