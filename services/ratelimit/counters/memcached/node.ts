import type { Backoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { BusyPollMode } from '../busy-poll.ts'
import { breakerSilenceMs, type CreateBreaker } from '../circuit-breaker.ts'
import type { TlsOptions } from '../connect-socket.ts'
import { CountersError, type Hit } from '../counters.ts'
import { createPipeline } from '../pipeline.ts'
import { sendSums } from '../sum-equal-keys.ts'
import { createTouchedKeys } from '../touched-keys.ts'
import type { CallStats } from './call-stats.ts'
import { type Connection, createConnection } from './connection.ts'
import { createAfterAnswerSender, type OnUncounted } from './send-after-answer.ts'
import { createCountSender, createLookSender, type SendCounts } from './send-counts.ts'
import { createLargeCountSender } from './send-large-counts.ts'
import type { ServerAddress } from './server-list.ts'

/** The counters of one memcached. */
export interface MemcachedNode {
  readonly address: ServerAddress
  readonly connection: Connection
  /** As `Counters.add`, of legal keys. Rejects at once while the connection is not usable. */
  add(batch: readonly Hit[]): Promise<readonly number[]>
  /** Why its connection is not usable, with its address; empty when it is. */
  problem(): string
  close(): Promise<void>
}

/** What all nodes share. */
export interface NodeOptions {
  readonly tls?: TlsOptions | (() => TlsOptions)
  readonly connectTimeoutMs: number
  readonly stallTimeoutMs: number
  /** How long an `add` may take. */
  readonly deadlineMs: number
  /** The most hits of one node that are collected or written and not yet answered. */
  readonly maxHitsInFlight: number
  /** Of how many keys of one node is remembered that they have their counter; of so many as hits at least. */
  readonly maxTouchedKeys: number
  /** Count after the answer; told what could not be counted then. */
  readonly afterAnswer?: OnUncounted
  readonly calls: CallStats
  /** Whether the event loop stays awake for replies that come soon. */
  readonly busyPoll?: BusyPollMode
  readonly newBackoff: () => Backoff
  readonly newBreaker: CreateBreaker
  readonly clock: Clock
}

/**
 * Connects at once.
 *
 * @param onChange called after each change of `healthy`, and when the first try has failed
 */
export function createNode(
  address: ServerAddress,
  options: NodeOptions,
  onChange: (node: MemcachedNode) => void,
): MemcachedNode {
  const { deadlineMs, maxHitsInFlight, maxTouchedKeys, newBackoff, clock, calls, afterAnswer } = options
  const connection = createConnection({
    ...options,
    endpoint: address.endpoint,
    silenceMs: breakerSilenceMs(deadlineMs),
    backoff: newBackoff(),
    breaker: options.newBreaker(`memcached ${address.text}`),
  })
  const look = createLookSender(connection, calls)
  const exact = createLargeCountSender(look, createCountSender(connection, clock, calls))
  const send: SendCounts =
    afterAnswer === undefined ? exact : createAfterAnswerSender(look, exact, afterAnswer)
  // A key must not be forgotten within one write: it would stand there twice, with an order of its own.
  const touchedKeys = createTouchedKeys(Math.max(maxTouchedKeys, 2 * maxHitsInFlight))
  const pipeline = createPipeline({
    send: sendSums(send, touchedKeys),
    deadlineMs,
    maxHitsInFlight,
    windowMs: 0,
    // One write a turn: several would look before the first of them counts, where a look comes first.
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
    // Memcached may come back empty: every key is new to it then.
    if (!connection.healthy) touchedKeys.clear()
    onChange(node)
  })
  return node
}
