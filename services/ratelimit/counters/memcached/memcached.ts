import { createBackoff } from '@tollway/chassis/backoff.ts'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import type { LogFields } from '@tollway/chassis/log/log.ts'
import { type BackendStats, unreadStats } from '../backend-stats.ts'
import { addSplit } from '../batching/split-batch.ts'
import { defaultMaxTouchedKeys } from '../batching/touched-keys.ts'
import type { BusyPollMode } from '../connections/busy-poll.ts'
import { createBreakers } from '../connections/circuit-breaker.ts'
import type { TlsOptions } from '../connections/connect-socket.ts'
import { type Counters, CountersError, closedText, type Hit } from '../counters.ts'
import { createCallStats } from './call-stats.ts'
import { NodeList } from './node-list.ts'
import { isLegalKey, MalformedKeyError } from './request.ts'
import type { OnUncounted } from './send-after-answer.ts'
import { parseServerList } from './server-list.ts'
import { type ResolveSrv, watchSrv } from './srv-watch.ts'

interface MemcachedCountersOptions {
  /** See `parseServerList`. Exactly one of `hostPort` and `srv` must be set and not empty. */
  readonly hostPort?: string | readonly string[]
  /** An SRV record, `_service._proto.name`, that lists the servers. */
  readonly srv?: string
  /**
   * The interval of SRV lookups after the record was found, in milliseconds. Defaults to 0: the record is not
   * looked up again.
   */
  readonly srvRefreshMs?: number
  /** Looks up the record. Defaults to the system's resolver. */
  readonly resolveSrv?: ResolveSrv
  /** Enables TLS. A function is called for each connection, so that renewed certificates are used. */
  readonly tls?: TlsOptions | (() => TlsOptions) | undefined
  /**
   * Counts after the answer, as envoyproxy/ratelimit does: callers that arrive at the same moment may exceed
   * a limit. Counts are exact when left out.
   */
  readonly countAfterAnswer?: boolean
  /** Called once for each write of counts that failed after the answer. */
  readonly onUncounted?: OnUncounted
  readonly deadlineMs?: number
  /** A connection is closed when the server has not answered for the first time within this time. */
  readonly connectTimeoutMs?: number
  /** A connection is closed when replies are due and the server has sent nothing for this time. */
  readonly stallTimeoutMs?: number
  readonly busyPoll?: BusyPollMode
  readonly maxHitsInFlight?: number
  /** The number of keys for each server whose counters this process remembers to have created. */
  readonly maxTouchedKeys?: number
  /** The clock of deadlines, and of expiries that are sent as a Unix time. Defaults to the system's clock. */
  readonly clock?: Clock
  /** Where the statistics of memcached's replies are kept; nowhere when left out. */
  readonly stats?: BackendStats
  readonly random: () => number
  /** Called when a server is not reached at first, lost or back, and when the SRV record is not found. */
  readonly onWarning?: (message: string, fields: LogFields) => void
}

/**
 * Counters in memcached, distributed over its servers by key (`pickServer`). `createCountSender` documents
 * how they are counted. One connection to each server carries all calls: the calls of one turn of the event
 * loop share a write. All processes must have the same servers in the same order; otherwise they use
 * different counters.
 *
 * Healthy while any server is healthy; false at first, until each server was tried. While a server is away,
 * calls with one of its keys are rejected at once with the reason; calls without such a key are not affected.
 * The server is reconnected with delays that grow to half a second. Keys have at most 250 bytes; a call with
 * an illegal key is rejected with a `MalformedKeyError` and counts nothing.
 *
 * @throws Error when neither or both of `hostPort` and `srv` are set, or the one that is set cannot be
 * parsed.
 */
export class MemcachedCounters implements Counters {
  readonly #nodes: NodeList
  readonly #watch: { close(): void } | undefined
  #closed = false

  constructor(options: MemcachedCountersOptions) {
    const { hostPort = '', srv = '', onWarning = () => {}, clock = systemClock } = options
    if (srv !== '' && hostPort.length > 0) throw new Error('Both MEMCACHE_HOST_PORT and MEMCACHE_SRV are set')
    if (srv === '' && hostPort.length === 0) {
      throw new Error('neither MEMCACHE_HOST_PORT nor MEMCACHE_SRV is set')
    }
    const nodes = new NodeList({ ...nodeOptions(options), onWarning, clock })
    this.#nodes = nodes
    if (srv === '') nodes.set(parseServerList(hostPort))
    else {
      this.#watch = watchSrv({
        name: srv,
        refreshMs: options.srvRefreshMs ?? 0,
        random: options.random,
        clock,
        resolve: options.resolveSrv,
        onServers: servers => nodes.set(servers),
        onProblem(problem) {
          nodes.setProblem(problem)
          onWarning('look up memcached servers failed', { reason: problem })
        },
      })
    }
  }

  get healthy(): boolean {
    return this.#nodes.healthy
  }

  get problem(): string {
    if (this.#closed) return closedText
    return this.healthy ? '' : this.#nodes.problem()
  }

  onHealth(listener: (healthy: boolean) => void): void {
    this.#nodes.onHealth(listener)
  }

  add(batch: readonly Hit[]): Promise<readonly number[]> {
    const nodes = this.#nodes
    if (this.#closed) return Promise.reject(new CountersError(closedText))
    const [first] = batch
    if (first === undefined) return Promise.resolve([])
    if (!batch.every(({ key }) => isLegalKey(key))) return Promise.reject(new MalformedKeyError())
    const node = nodes.findNode(first.key)
    if (node === undefined) return Promise.reject(new CountersError(nodes.problem()))
    if (batch.length === 1 || batch.every(({ key }) => nodes.findNode(key) === node)) return node.add(batch)
    return addSplit(
      batch,
      ({ key }) => nodes.findNode(key) ?? node,
      (owner, part) => owner.add(part),
    )
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#watch?.close()
    await this.#nodes.close()
  }
}

function nodeOptions(options: MemcachedCountersOptions) {
  const { stats = unreadStats, onWarning = () => {}, onUncounted = () => {}, random } = options
  return {
    tls: options.tls,
    busyPoll: options.busyPoll,
    afterAnswer: options.countAfterAnswer ? onUncounted : undefined,
    connectTimeoutMs: options.connectTimeoutMs ?? 1_000,
    stallTimeoutMs: options.stallTimeoutMs ?? 1_000,
    deadlineMs: options.deadlineMs ?? 100,
    maxHitsInFlight: options.maxHitsInFlight ?? 20_000,
    maxTouchedKeys: options.maxTouchedKeys ?? defaultMaxTouchedKeys,
    calls: createCallStats(stats),
    newBreaker: createBreakers({ stats, prefix: 'ratelimit.memcache', onWarning }),
    newBackoff: () => createBackoff({ initialMs: 50, maxMs: 500, factor: 2, jitter: 0.5, random }),
  }
}
