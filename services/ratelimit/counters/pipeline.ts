import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { CountersError, type Hit } from './counters.ts'
import { createDeadlines, type Waiting } from './deadlines.ts'

/**
 * Collects concurrent calls of `add` and sends them together. Knows no backend and not what is made of the
 * calls: `send` does.
 */
export interface Pipeline {
  /** As `Counters.add`. */
  add(batch: readonly Hit[]): Promise<readonly number[]>
  /** Rejects what runs and what comes. */
  close(): void
}

export interface PipelineOptions {
  readonly send: SendCalls
  /** How long an `add` may take, from the call on. */
  readonly deadlineMs: number
  /** How long calls are collected; 0 for one turn of the event loop. */
  readonly windowMs: number
  /** So many collected hits are sent before the window is over; 0 for no such limit. */
  readonly limit: number
  /**
   * The most hits that are neither answered by the backend nor known to be lost. Those count whose callers
   * were already told that the deadline has passed: they still lie in a buffer.
   */
  readonly maxHitsInFlight: number
  readonly clock?: Clock
}

/** Writes the calls at once, and calls `onAnswers` once, if ever; perhaps before it returns. */
export type SendCalls = (calls: readonly Call[], onAnswers: (answerOf: AnswerOf) => void) => void

export interface Call {
  readonly batch: readonly Hit[]
}

/**
 * The values of one of the calls of a write, or why there are none.
 *
 * @param index its place among the calls
 * @param from the place of its first hit among the hits of all of them
 */
export type AnswerOf = (index: number, from: number) => readonly number[] | CountersError

/** A call of `add` that waits for its values. */
interface Add extends Waiting, Call {
  readonly resolve: (values: readonly number[]) => void
}

/**
 * What comes in one turn goes in writes of so many hits where no window is asked for: the backend works on the first of
 * them while we read on. With 100 calls in flight on one connection each side would wait for the other otherwise; now
 * there are 1.4 to 1.9 times as many decisions a second, for a fifth less of our processor, since it seldom sleeps. A
 * write is 0.1 µs of each of so many.
 */
export const hitsPerWrite = 50

const closedText = 'the counters are closed'

export function createPipeline(options: PipelineOptions): Pipeline {
  const { send, deadlineMs, windowMs, limit, maxHitsInFlight, clock = systemClock } = options
  const mostHits = limit > 0 ? limit : windowMs > 0 ? Number.POSITIVE_INFINITY : hitsPerWrite
  const deadlines = createDeadlines(deadlineMs, clock)
  let collected: Add[] = []
  let collectedHits = 0
  let cancelWindow: (() => void) | undefined
  let hitsInFlight = 0
  let closed = false

  function collect(add: Add): void {
    cancelWindow ??= schedule(sendCollected, windowMs)
    collected.push(add)
    collectedHits += add.batch.length
    if (collectedHits >= mostHits) sendCollected()
  }

  function sendCollected(): void {
    const hits = collectedHits
    // Who was told that the deadline has passed is not counted any more, where that can still be helped.
    const adds = collected.filter(add => !add.settled)
    dropCollected()
    if (adds.length === 0) {
      hitsInFlight -= hits
      deadlines.forgetSettled()
      return
    }
    send(adds, answerOf => {
      hitsInFlight -= hits
      settle(adds, answerOf)
      deadlines.forgetSettled()
    })
  }

  function dropCollected(): void {
    cancelWindow?.()
    cancelWindow = undefined
    collected = []
    collectedHits = 0
  }

  return {
    add(batch) {
      if (closed) return Promise.reject(new CountersError(closedText))
      if (batch.length === 0) return Promise.resolve([])
      if (hitsInFlight + batch.length > maxHitsInFlight) {
        const problem = `too many hits in flight: ${hitsInFlight} and ${batch.length} more`
        return Promise.reject(new CountersError(`${problem}; the limit is ${maxHitsInFlight}`))
      }
      hitsInFlight += batch.length
      const { promise, resolve, reject } = Promise.withResolvers<readonly number[]>()
      const startedMs = clock.monotonicMs()
      const add: Add = { batch, startedMs, resolve, reject, settled: false, next: undefined }
      deadlines.watch(add)
      collect(add)
      return promise
    },
    close() {
      closed = true
      dropCollected()
      deadlines.rejectAll(closedText)
    },
  }
}

/**
 * With no window, the end of the turn is after all sockets that are readable in it: few calls of theirs go together.
 */
function schedule(task: () => void, windowMs: number): () => void {
  if (windowMs > 0) {
    const timer = setTimeout(task, windowMs)
    return () => clearTimeout(timer)
  }
  const immediate = setImmediate(task)
  return () => clearImmediate(immediate)
}

/** Gives each call its values, except those that were rejected meanwhile. */
function settle(adds: readonly Add[], answerOf: AnswerOf): void {
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
