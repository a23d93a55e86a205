import type { Clock } from '@tollway/chassis/clock.ts'
import { CountersError, type Hit } from './counters.ts'
import { type Call, createPipeline, type Pipeline, type SendCalls } from './pipeline.ts'
import type { RespConnection } from './resp/connection.ts'
import { missingAnswer, type Send } from './send.ts'
import { createIncrementSender } from './send-increments.ts'
import { createScriptSender } from './send-scripts.ts'
import { type Count, type Increment, sendSums } from './sum-equal-keys.ts'
import { createTouchedKeys } from './touched-keys.ts'

/** The counters of one Redis, which may hold all of them or those of some slots. */
export interface RedisNode {
  readonly connection: RespConnection
  /** As `Counters.add`. Rejects at once while the connection is not usable. */
  add(batch: readonly Hit[]): Promise<readonly number[]>
  /** The same, but where a key would exceed its limit only such keys are incremented; atomic. */
  addUnlessOver(batch: readonly Hit[]): Promise<readonly number[]>
  /** Past the collecting, for what another node sent here. */
  readonly sendIncrements: Send<Increment, Count>
  readonly sendCalls: Send<Call, readonly number[]>
  close(): Promise<void>
}

export interface RedisNodeOptions {
  readonly connection: RespConnection
  readonly limits: RedisLimits
  /** Why calls are rejected while the connection is not usable; the connection's problem when left out. */
  readonly problem?: () => string
  /** Told the text of each error of Redis. */
  readonly onRefusal?: (text: string) => void
  /** Follows the answers that name another node. */
  readonly follow?: Follow
}

/** What bounds and delays the calls of one connection. */
export interface RedisLimits {
  /** How long an `add` may take. */
  readonly deadlineMs: number
  /** How long commands are collected before they are written; 0 for one turn of the event loop. */
  readonly windowMs: number
  /** So many collected hits are written before the window is over; 0 for no such limit. */
  readonly limit: number
  /** The most hits that are collected or written and not yet answered; beyond it `add` rejects at once. */
  readonly maxHitsInFlight: number
  /** Of how many keys is remembered that their expiry was set. */
  readonly maxTouchedKeys: number
  /** For the deadlines; the system's when left out. */
  readonly clock?: Clock
}

/** @param of the door of another node to the same kind of items */
export type Follow = <Item, Answer>(
  send: Send<Item, Answer>,
  of: (node: RedisNode) => Send<Item, Answer>,
) => Send<Item, Answer>

const followNothing: Follow = send => send

export function createRedisNode(options: RedisNodeOptions): RedisNode {
  const { connection, limits, onRefusal = () => {}, follow = followNothing } = options
  const { problem = () => connection.problem } = options
  const touchedKeys = createTouchedKeys(limits.maxTouchedKeys)
  const sendIncrements = createIncrementSender(connection, onRefusal)
  const sendCalls = createScriptSender(connection, touchedKeys, onRefusal)
  const increments = follow(sendIncrements, node => node.sendIncrements)
  const calls = follow(sendCalls, node => node.sendCalls)
  const sums = createPipeline({ ...limits, send: sendSums(increments, touchedKeys) })
  const scripts = createPipeline({ ...limits, send: eachForItself(calls) })
  // Redis may come back empty: every key is new to it then.
  connection.onHealth(healthy => {
    if (!healthy) touchedKeys.clear()
  })
  let closed = false

  function addTo(pipeline: Pipeline, batch: readonly Hit[]): Promise<readonly number[]> {
    if (closed || connection.usable) return pipeline.add(batch)
    return Promise.reject(new CountersError(problem()))
  }

  return {
    connection,
    add: batch => addTo(sums, batch),
    addUnlessOver: batch => addTo(scripts, batch),
    sendIncrements,
    sendCalls,
    close() {
      closed = true
      sums.close()
      scripts.close()
      return connection.close()
    },
  }
}

function eachForItself(send: Send<Call, readonly number[]>): SendCalls {
  return (calls, onAnswers) => {
    send(calls, (answers, problem) => onAnswers(index => answers[index] ?? missingAnswer(problem)))
  }
}
