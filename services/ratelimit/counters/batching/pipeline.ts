import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { CountersError, closedText, type Hit } from '../counters.ts'

interface PipelineOptions<Item = Hit, Value = number> {
  readonly send: SendCalls<Item, Value>
  /** The timeout of a call in milliseconds, from the call of `add` on. */
  readonly deadlineMs: number
  /** How long calls are collected; 0 for one turn of the event loop. */
  readonly windowMs: number
  /** Collected hits are sent early when there are this many; 0 for no such limit. */
  readonly limit: number
  /**
   * At most this many hits are collected or sent and not answered; a call beyond that is rejected at once.
   * Hits whose callers were rejected at their deadline count until the backend answers or the connection is
   * lost.
   */
  readonly maxHitsInFlight: number
  readonly clock?: Clock
}

/** Writes the calls at once, and calls `onAnswers` at most once, possibly before it returns. */
export type SendCalls<Item = Hit, Value = number> = (
  calls: readonly PipelineCall<Item>[],
  onAnswers: (answerOf: AnswerOf<Value>) => void,
) => void

export interface PipelineCall<Item = Hit> {
  readonly batch: readonly Item[]
}

/**
 * Returns the values of one call of a write, or the error why there are none.
 *
 * @param index the index of the call among the calls of the write
 * @param from the index of the call's first hit among the hits of all calls
 */
type AnswerOf<Value = number> = (index: number, from: number) => readonly Value[] | CountersError

interface PendingAdd<Item, Value> extends TimedCall, PipelineCall<Item> {
  readonly resolve: (values: readonly Value[]) => void
}

/**
 * Without a window, the hits of one turn are split into writes of about this many hits, so that the backend
 * processes the first write while this process still reads calls. With 100 calls in flight on one connection,
 * each side would otherwise wait for the other: splitting gives 1.4 to 1.9 times as many decisions a second
 * and takes a fifth less CPU time of this process, which then rarely sleeps. A write of this many hits costs
 * 0.1 µs for each hit.
 */
const hitsPerWrite = 50

/**
 * Collects concurrent calls into batches and sends each batch in one write, through `send`. An item is one
 * hit of a call, answered with a number, or one limit check of a call, answered with an outcome.
 */
export class Pipeline<Item = Hit, Value = number> {
  readonly #send: SendCalls<Item, Value>
  readonly #windowMs: number
  /** Collected hits are sent at once when there are this many. */
  readonly #mostHits: number
  readonly #maxHitsInFlight: number
  readonly #clock: Clock
  readonly #deadlines: Deadlines
  #collected: PendingAdd<Item, Value>[] = []
  #collectedHits = 0
  #cancelWindow: (() => void) | undefined
  #hitsInFlight = 0
  #closed = false

  constructor(options: PipelineOptions<Item, Value>) {
    const { send, deadlineMs, windowMs, limit, maxHitsInFlight, clock = systemClock } = options
    this.#send = send
    this.#windowMs = windowMs
    this.#mostHits = limit > 0 ? limit : windowMs > 0 ? Number.POSITIVE_INFINITY : hitsPerWrite
    this.#maxHitsInFlight = maxHitsInFlight
    this.#clock = clock
    this.#deadlines = new Deadlines(deadlineMs, clock)
  }

  /** Has the contract of `Counters.add`, or of `Counters.admit`. */
  add(batch: readonly Item[]): Promise<readonly Value[]> {
    if (this.#closed) return Promise.reject(new CountersError(closedText))
    if (batch.length === 0) return Promise.resolve([])
    if (this.#hitsInFlight + batch.length > this.#maxHitsInFlight) {
      const problem = `too many hits in flight: ${this.#hitsInFlight} and ${batch.length} more`
      return Promise.reject(new CountersError(`${problem}; the limit is ${this.#maxHitsInFlight}`))
    }
    this.#hitsInFlight += batch.length
    const { promise, resolve, reject } = Promise.withResolvers<readonly Value[]>()
    const startedMs = this.#clock.monotonicMs()
    const add = { batch, startedMs, resolve, reject, settled: false, next: undefined }
    this.#deadlines.watch(add)
    this.#collect(add)
    return promise
  }

  /** Rejects the calls that have no answer yet, and all later ones. */
  close(): void {
    this.#closed = true
    this.#dropCollected()
    this.#deadlines.rejectAll(closedText)
  }

  #collect(add: PendingAdd<Item, Value>): void {
    this.#cancelWindow ??= schedule(() => this.#sendCollected(), this.#windowMs)
    this.#collected.push(add)
    this.#collectedHits += add.batch.length
    if (this.#collectedHits >= this.#mostHits) this.#sendCollected()
  }

  #sendCollected(): void {
    const hits = this.#collectedHits
    // Calls that were rejected at their deadline are no longer sent, so their hits are not counted.
    const adds = this.#collected.filter(add => !add.settled)
    this.#dropCollected()
    if (adds.length === 0) this.#finish(adds, hits)
    else this.#send(adds, answerOf => this.#finish(adds, hits, answerOf))
  }

  #finish(adds: readonly PendingAdd<Item, Value>[], hits: number, answerOf?: AnswerOf<Value>): void {
    this.#hitsInFlight -= hits
    if (answerOf !== undefined) settle(adds, answerOf)
    this.#deadlines.forgetSettled()
  }

  #dropCollected(): void {
    this.#cancelWindow?.()
    this.#cancelWindow = undefined
    this.#collected = []
    this.#collectedHits = 0
  }
}

/**
 * Runs the task after `windowMs`. For 0 it runs in the same turn of the event loop, after all sockets that
 * are readable in this turn were read. Returns a function that cancels it.
 */
function schedule(task: () => void, windowMs: number): () => void {
  if (windowMs > 0) {
    const timer = setTimeout(task, windowMs)
    return () => clearTimeout(timer)
  }
  const immediate = setImmediate(task)
  return () => clearImmediate(immediate)
}

/** Settles each call with its values or its error, except those that were already rejected. */
function settle<Item, Value>(adds: readonly PendingAdd<Item, Value>[], answerOf: AnswerOf<Value>): void {
  let index = 0
  let from = 0
  for (const add of adds) {
    if (!add.settled) {
      add.settled = true
      const values = answerOf(index, from)
      if (values instanceof CountersError) add.reject(values)
      else add.resolve(values)
    }
    index += 1
    from += add.batch.length
  }
}

/** A call that is rejected if it is not settled by its deadline. */
interface TimedCall {
  readonly startedMs: number
  readonly reject: (error: CountersError) => void
  settled: boolean
  /** The next younger call; maintained by `Deadlines`. */
  next: TimedCall | undefined
}

/**
 * A timer has a resolution of a millisecond, so one set for the deadline fires after it. A call whose
 * deadline is at most this far away is therefore rejected at once, and its caller has the answer by the
 * deadline.
 */
const timerResolutionMs = 1

/** Watches calls that all have the same timeout. One timer, for the oldest call, is enough. */
class Deadlines {
  readonly #deadlineMs: number
  readonly #clock: Clock
  #oldest: TimedCall | undefined
  #newest: TimedCall | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(deadlineMs: number, clock: Clock) {
    this.#deadlineMs = deadlineMs
    this.#clock = clock
  }

  watch(call: TimedCall): void {
    if (this.#newest === undefined) this.#oldest = call
    else this.#newest.next = call
    this.#newest = call
    if (this.#timer === undefined) this.#plan(this.#deadlineMs)
  }

  /** Drops the settled calls at the old end of the list, up to the first call that still waits. */
  forgetSettled(): void {
    while (this.#oldest?.settled) this.#forgetOldest()
  }

  rejectAll(problem: string): void {
    clearTimeout(this.#timer)
    for (this.forgetSettled(); this.#oldest !== undefined; this.forgetSettled()) reject(this.#oldest, problem)
  }

  #forgetOldest(): void {
    if (this.#oldest === undefined) return
    const { next } = this.#oldest
    // Unlinks the call: otherwise one call that has moved to V8's old generation keeps all later calls alive.
    this.#oldest.next = undefined
    this.#oldest = next
    if (next === undefined) this.#newest = undefined
  }

  #plan(leftMs: number): void {
    // Before calls are rejected the event loop reads what has arrived: a long turn of the loop must not be
    // taken for a slow backend.
    this.#timer = setTimeout(() => setImmediate(() => this.#rejectLate()), leftMs - timerResolutionMs)
  }

  #rejectLate(): void {
    this.#timer = undefined
    const nowMs = this.#clock.monotonicMs()
    for (this.forgetSettled(); this.#oldest !== undefined; this.forgetSettled()) {
      const leftMs = this.#oldest.startedMs + this.#deadlineMs - nowMs
      if (leftMs > timerResolutionMs) {
        this.#plan(leftMs)
        return
      }
      reject(this.#oldest, `the backend did not answer within ${this.#deadlineMs} ms`)
    }
  }
}

function reject(call: TimedCall, problem: string): void {
  call.settled = true
  call.reject(new CountersError(problem))
}
