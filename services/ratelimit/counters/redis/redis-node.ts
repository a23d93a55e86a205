import type { Clock } from '@tollway/chassis/clock.ts'
import type { LimitCheck, LimitOutcome } from '../admission/limit-check.ts'
import { type AdmissionRun, type RunOutcomes, sendRuns } from '../batching/admission-runs.ts'
import { Pipeline, type PipelineCall, type SendCalls } from '../batching/pipeline.ts'
import { createMissingAnswer, type Send } from '../batching/send.ts'
import { addSplit } from '../batching/split-batch.ts'
import { type Count, type Increment, sendSums } from '../batching/sum-equal-keys.ts'
import { TouchedKeys } from '../batching/touched-keys.ts'
import { CountersError, type Hit, toFixedWindowCheck } from '../counters.ts'
import { admissionScript, type TimeMicros } from './admission-script.ts'
import { type DueLedger, type LedgerIndexRun, ledgerIndexScript } from './ledger-index-script.ts'
import { type BucketSharesReply, type BucketSharesRun, bucketSharesScript } from './redis-bucket-shares.ts'
import {
  type ReservationBatch,
  type ReservationReplies,
  type ReservationReply,
  type ReservationRun,
  reservationScript,
  sendReservations,
} from './reservation-script.ts'
import type { RespConnection } from './resp/connection.ts'
import { createIncrementSender } from './send-increments.ts'
import { createScriptSender } from './send-scripts.ts'
import { stopWhenOverScript } from './stop-when-over-script.ts'

interface RedisNodeOptions {
  /** Why calls are rejected while the connection is not usable. Defaults to its problem. */
  readonly problem?: () => string
  readonly onErrorReply?: (text: string) => void
  /** Returns the slot of a key. Present in a cluster, where all keys of a script must be in one slot. */
  readonly findSlot?: (key: string) => number
  /**
   * Wraps a sender so that answers that redirect to another node are followed. By default, no answer is
   * followed.
   */
  readonly follow?: Follow
}

interface RedisLimits {
  readonly deadlineMs: number
  /** How long commands are collected before they are written; 0 for one turn of the event loop. */
  readonly windowMs: number
  /** Collected hits are written early when there are this many; 0 for no such limit. */
  readonly limit: number
  /** At most this many hits are collected or await an answer; a call beyond that is rejected at once. */
  readonly maxHitsInFlight: number
  /** The number of keys for which this process remembers that it set the expiry. */
  readonly maxTouchedKeys: number
  readonly clock: Clock
  readonly timeMicros?: TimeMicros | undefined
}

/**
 * Wraps a sender so that it follows answers that redirect to another node.
 *
 * @param of returns the sender of another node for the same kind of items
 */
export type Follow = <Item, Answer>(
  send: Send<Item, Answer>,
  of: (node: RedisNode) => Send<Item, Answer>,
) => Send<Item, Answer>

/** The counters in one Redis server: all counters, or those in some slots of a cluster. */
export class RedisNode {
  readonly connection: RespConnection
  /** Returns why calls are rejected while the connection is not usable. */
  readonly problem: () => string
  /** These senders send at once, without batching: another node has redirected the items to this one. */
  readonly sendIncrements: Send<Increment, Count>
  readonly sendCalls: Send<PipelineCall, readonly number[]>
  readonly sendAdmissions: Send<AdmissionRun, RunOutcomes>
  readonly sendReservations: Send<ReservationBatch, ReservationReplies>
  readonly sendLedgerIndex: Send<LedgerIndexRun, readonly DueLedger[]>
  readonly sendBucketShares: Send<BucketSharesRun, BucketSharesReply>
  readonly #sums: Pipeline
  readonly #scripts: Pipeline
  readonly #admissions: Pipeline<LimitCheck, LimitOutcome>
  readonly #reservations: Pipeline<ReservationRun, ReservationReply>
  readonly #ledgerIndex: Pipeline<LedgerIndexRun, readonly DueLedger[]>
  readonly #bucketShares: Pipeline<BucketSharesRun, BucketSharesReply>
  #closed = false

  constructor(connection: RespConnection, limits: RedisLimits, options: RedisNodeOptions = {}) {
    const { onErrorReply = () => {}, follow = send => send } = options
    const touchedKeys = new TouchedKeys(limits.maxTouchedKeys)
    this.connection = connection
    this.problem = options.problem ?? (() => connection.problem)
    this.sendIncrements = createIncrementSender(connection, onErrorReply)
    this.sendCalls = createScriptSender(connection, stopWhenOverScript(touchedKeys), onErrorReply)
    this.sendAdmissions = createScriptSender(
      connection,
      admissionScript(touchedKeys, limits.timeMicros),
      onErrorReply,
    )
    this.sendReservations = createScriptSender(connection, reservationScript(limits.timeMicros), onErrorReply)
    this.sendLedgerIndex = createScriptSender(connection, ledgerIndexScript, onErrorReply)
    this.sendBucketShares = createScriptSender(
      connection,
      bucketSharesScript(limits.timeMicros),
      onErrorReply,
    )
    const increments = follow(this.sendIncrements, node => node.sendIncrements)
    const wholeCalls = follow(this.sendCalls, node => node.sendCalls)
    const runs = follow(this.sendAdmissions, node => node.sendAdmissions)
    // Each call has a time of its own if a test passes the times. A number for each call keeps calls in
    // separate runs.
    let calls = 0
    const findSlot = limits.timeMicros === undefined ? options.findSlot : () => calls++
    this.#sums = new Pipeline({ ...limits, send: sendSums(increments, touchedKeys) })
    this.#scripts = new Pipeline({ ...limits, send: eachForItself(wholeCalls) })
    this.#admissions = new Pipeline({ ...limits, send: sendRuns(runs, findSlot) })
    const reservations = follow(this.sendReservations, node => node.sendReservations)
    const ledgerIndex = follow(this.sendLedgerIndex, node => node.sendLedgerIndex)
    const bucketShares = follow(this.sendBucketShares, node => node.sendBucketShares)
    this.#reservations = new Pipeline({ ...limits, send: sendReservations(reservations, findSlot) })
    this.#ledgerIndex = new Pipeline({ ...limits, send: ofOneItem(ledgerIndex) })
    this.#bucketShares = new Pipeline({ ...limits, send: ofOneItem(bucketShares) })
    // Redis may have restarted without data, so every key may be new to it.
    connection.onHealth(healthy => {
      if (!healthy) touchedKeys.clear()
    })
  }

  /** Has the contract of `Counters.add`. Rejects at once while the connection is not usable. */
  add(batch: readonly Hit[]): Promise<readonly number[]> {
    return this.#addAll(this.#sums, batch)
  }

  /** Like `add`, but atomic, and if any key would exceed its limit, only such keys are incremented. */
  addUnlessOver(batch: readonly Hit[]): Promise<readonly number[]> {
    return this.#addAll(this.#scripts, batch)
  }

  /** Has the contract of `Counters.admit`. In a cluster, the keys of all checks must be in one slot. */
  admit(checks: readonly LimitCheck[]): Promise<readonly LimitOutcome[]> {
    return this.#addTo(this.#admissions, checks)
  }

  /** Does a call of `Reservations`. Rejects with a `CountersError`. */
  runReservation(run: ReservationRun): Promise<ReservationReply> {
    return this.#addTo(this.#reservations, [run]).then(([reply]) => reply as ReservationReply)
  }

  /** Does a call of the index of ledgers. Rejects with a `CountersError`. */
  async runLedgerIndex(run: LedgerIndexRun): Promise<readonly DueLedger[]> {
    const [due = []] = await this.#addTo(this.#ledgerIndex, [run])
    return due
  }

  /** Does a call of `BucketShares`. Rejects with a `CountersError`. */
  async runBucketShares(run: BucketSharesRun): Promise<BucketSharesReply> {
    const [answer = 0] = await this.#addTo(this.#bucketShares, [run])
    return answer
  }

  close(): Promise<void> {
    this.#closed = true
    this.#reservations.close()
    this.#ledgerIndex.close()
    this.#bucketShares.close()
    this.#sums.close()
    this.#scripts.close()
    this.#admissions.close()
    return this.connection.close()
  }

  /** Hits that are given back need a script, because an INCRBY does not stop at 0. */
  #addAll(pipeline: Pipeline, batch: readonly Hit[]): Promise<readonly number[]> {
    if (!batch.some(isGivenBack)) return this.#addTo(pipeline, batch)
    return addSplit(batch, isGivenBack, (given, part) =>
      given ? this.#giveBack(part) : this.#addTo(pipeline, part),
    )
  }

  /** Gives back each hit in a call of its own, because in a cluster the keys of a call must be in one slot. */
  #giveBack(batch: readonly Hit[]): Promise<readonly number[]> {
    return Promise.all(
      batch.map(async hit => {
        const [outcome] = await this.admit([toFixedWindowCheck(hit)])
        return hit.limit - (outcome?.remaining ?? 0)
      }),
    )
  }

  #addTo<Item, Value>(pipeline: Pipeline<Item, Value>, batch: readonly Item[]): Promise<readonly Value[]> {
    if (this.#closed || this.connection.usable) return pipeline.add(batch)
    return Promise.reject(new CountersError(this.problem()))
  }
}

function isGivenBack({ hits, grants }: Hit): boolean {
  return hits < 0 && !grants
}

function eachForItself(send: Send<PipelineCall, readonly number[]>): SendCalls {
  return (calls, onAnswers) => {
    send(calls, (answers, problem) => onAnswers(index => answers[index] ?? createMissingAnswer(problem)))
  }
}

/** Sends calls that have one item each. */
function ofOneItem<Item, Answer>(send: Send<Item, Answer>): SendCalls<Item, Answer> {
  return (calls, onAnswers) => {
    const items = calls.map(({ batch }) => batch[0] as Item)
    send(items, (answers, problem) =>
      onAnswers(index => {
        const answer = answers[index]
        if (answer instanceof CountersError) return answer
        return answer === undefined ? createMissingAnswer(problem) : [answer]
      }),
    )
  }
}
