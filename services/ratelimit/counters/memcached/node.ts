import type { Backoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import { Pipeline } from '../batching/pipeline.ts'
import { sendSums } from '../batching/sum-equal-keys.ts'
import { TouchedKeys } from '../batching/touched-keys.ts'
import type { BusyPollMode } from '../connections/busy-poll.ts'
import { breakerSilenceMs, type CreateBreaker } from '../connections/circuit-breaker.ts'
import type { TlsOptions } from '../connections/connect-socket.ts'
import { CountersError, type Hit } from '../counters.ts'
import type { CallStats } from './call-stats.ts'
import { MemcachedConnection } from './connection.ts'
import { createAfterAnswerSender, type OnUncounted } from './send-after-answer.ts'
import { createCountSender, createLargeCountSender, createReadSender } from './send-counts.ts'
import type { ServerAddress } from './server-list.ts'

export interface NodeOptions {
  readonly tls?: TlsOptions | (() => TlsOptions) | undefined
  readonly connectTimeoutMs: number
  readonly stallTimeoutMs: number
  readonly deadlineMs: number
  readonly maxHitsInFlight: number
  /** How many created counters are remembered for each node; at least twice `maxHitsInFlight`. */
  readonly maxTouchedKeys: number
  /** Enables counting after the answer, and is called for hits that could not be counted then. */
  readonly afterAnswer?: OnUncounted | undefined
  readonly calls: CallStats
  readonly busyPoll?: BusyPollMode | undefined
  readonly newBackoff: () => Backoff
  readonly newBreaker: CreateBreaker
  readonly clock: Clock
}

/** The counters in one memcached server. Connects at once. */
export class MemcachedNode {
  readonly address: ServerAddress
  readonly connection: MemcachedConnection
  readonly #pipeline: Pipeline
  #closed = false

  /** @param onChange called after each change of `connection.healthy`, and when the first attempt has failed */
  constructor(address: ServerAddress, options: NodeOptions, onChange: (node: MemcachedNode) => void) {
    const { deadlineMs, maxHitsInFlight, maxTouchedKeys, clock, calls, afterAnswer } = options
    const connection = new MemcachedConnection({
      ...options,
      endpoint: address.endpoint,
      silenceMs: breakerSilenceMs(deadlineMs),
      backoff: options.newBackoff(),
      breaker: options.newBreaker(`memcached ${address.text}`),
    })
    const look = createReadSender(connection, calls)
    const exact = createLargeCountSender(look, createCountSender(connection, clock, calls))
    const send = afterAnswer === undefined ? exact : createAfterAnswerSender(look, exact, afterAnswer)
    // The table remembers all keys of one write. Otherwise a write could contain the same key twice, each
    // time with an `add` before it.
    const touchedKeys = new TouchedKeys(Math.max(maxTouchedKeys, 2 * maxHitsInFlight))
    this.address = address
    this.connection = connection
    this.#pipeline = new Pipeline({
      send: sendSums(send, touchedKeys),
      deadlineMs,
      maxHitsInFlight,
      windowMs: 0,
      // All calls of a turn share one write. Senders that read before they count would otherwise read for a
      // second write before the first one has counted.
      limit: maxHitsInFlight,
      clock,
    })
    connection.onChange(() => {
      // Memcached may have restarted without data, so every key may be new to it.
      if (!connection.healthy) touchedKeys.clear()
      onChange(this)
    })
  }

  /** Returns why the connection is not usable, with the server's address; empty when it is usable. */
  problem(): string {
    return this.connection.usable ? '' : `memcached ${this.address.text}: ${this.connection.problem}`
  }

  /**
   * Has the contract of `Counters.add`, for legal keys. Rejects at once while the connection is not usable.
   */
  add(batch: readonly Hit[]): Promise<readonly number[]> {
    if (this.#closed || this.connection.usable) return this.#pipeline.add(batch)
    return Promise.reject(new CountersError(this.problem()))
  }

  close(): Promise<void> {
    this.#closed = true
    this.#pipeline.close()
    return this.connection.close()
  }
}
