import type { Backoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import { createPipeline } from '../batching/pipeline.ts'
import { sendSums } from '../batching/sum-equal-keys.ts'
import { createTouchedKeys } from '../batching/touched-keys.ts'
import type { BusyPollMode } from '../connections/busy-poll.ts'
import { breakerSilenceMs, type CreateBreaker } from '../connections/circuit-breaker.ts'
import type { TlsOptions } from '../connections/connect-socket.ts'
import { CountersError, type Hit } from '../counters.ts'
import type { CallStats } from './call-stats.ts'
import { MemcachedConnection } from './connection.ts'
import { createAfterAnswerSender, type OnUncounted } from './send-after-answer.ts'
import {
  createCountSender,
  createLargeCountSender,
  createReadSender,
  type SendCounts,
} from './send-counts.ts'
import type { ServerAddress } from './server-list.ts'

/** The counters of one memcached. */
export interface MemcachedNode {
  readonly address: ServerAddress
  readonly connection: MemcachedConnection
  /**
   * Has the contract of `Counters.add`, for legal keys. Rejects at once while the connection is not usable.
   */
  add(batch: readonly Hit[]): Promise<readonly number[]>
  /** Returns why the connection is not usable, with its address; empty when it is usable. */
  problem(): string
  close(): Promise<void>
}

/** The options that all nodes share. */
export interface NodeOptions {
  readonly tls?: TlsOptions | (() => TlsOptions)
  readonly connectTimeoutMs: number
  readonly stallTimeoutMs: number
  /** The timeout of an `add`. */
  readonly deadlineMs: number
  /** The most hits of one node that are collected or written and not yet answered. */
  readonly maxHitsInFlight: number
  /**
   * The number of keys of one node whose counters this process remembers to exist. At least twice
   * `maxHitsInFlight` are remembered.
   */
  readonly maxTouchedKeys: number
  /** Count after the answer, and call this for hits that could not be counted then. */
  readonly afterAnswer?: OnUncounted
  readonly calls: CallStats
  /** Whether the event loop polls for replies that are expected early. */
  readonly busyPoll?: BusyPollMode
  readonly newBackoff: () => Backoff
  readonly newBreaker: CreateBreaker
  readonly clock: Clock
}

/**
 * Creates a node and connects at once.
 *
 * @param onChange called after each change of `healthy`, and when the first attempt has failed
 */
export function createNode(
  address: ServerAddress,
  options: NodeOptions,
  onChange: (node: MemcachedNode) => void,
): MemcachedNode {
  const { deadlineMs, maxHitsInFlight, maxTouchedKeys, newBackoff, clock, calls, afterAnswer } = options
  const connection = new MemcachedConnection({
    ...options,
    endpoint: address.endpoint,
    silenceMs: breakerSilenceMs(deadlineMs),
    backoff: newBackoff(),
    breaker: options.newBreaker(`memcached ${address.text}`),
  })
  const look = createReadSender(connection, calls)
  const exact = createLargeCountSender(look, createCountSender(connection, clock, calls))
  const send: SendCounts =
    afterAnswer === undefined ? exact : createAfterAnswerSender(look, exact, afterAnswer)
  // A key must not be forgotten within one write: the write would then contain it twice, each time with a
  // separate order.
  const touchedKeys = createTouchedKeys(Math.max(maxTouchedKeys, 2 * maxHitsInFlight))
  const pipeline = createPipeline({
    send: sendSums(send, touchedKeys),
    deadlineMs,
    maxHitsInFlight,
    windowMs: 0,
    // One write for each turn: where a read comes first, several writes would all read before the first of
    // them counts.
    limit: maxHitsInFlight,
    clock,
  })
  let closed = false
  const problem = () => (connection.usable ? '' : `memcached ${address.text}: ${connection.problem}`)
  const node: MemcachedNode = {
    address,
    connection,
    add(batch) {
      if (closed || connection.usable) return pipeline.add(batch)
      return Promise.reject(new CountersError(problem()))
    },
    problem,
    close() {
      closed = true
      pipeline.close()
      return connection.close()
    },
  }
  connection.onChange(() => {
    // Memcached may have restarted without data, so every key may be new to it.
    if (!connection.healthy) touchedKeys.clear()
    onChange(node)
  })
  return node
}
