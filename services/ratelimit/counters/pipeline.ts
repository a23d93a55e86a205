import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { CountersError, type Hit } from './counters.ts'
import { createDeadlines, type Waiting } from './deadlines.ts'
import { type Increment, type IncrementReply, type Sums, sumEqualKeys, valuesOf } from './sum-equal-keys.ts'
import type { TouchedKeys } from './touched-keys.ts'

/**
 * Collects concurrent calls of `add` and sends them together. Knows no backend: `send` is the connection.
 *
 * Equal keys are summed into one increment, and each caller's own value is derived from its reply in the
 * order of arrival, so that many callers of one key cost the backend as much as one.
 */
export interface Pipeline {
  /** As `Counters.add`. */
  add(batch: readonly Hit[]): Promise<readonly number[]>
  /** Rejects what runs and what comes. */
  close(): void
}

export interface PipelineOptions {
  /** Writes the increments at once, and calls `onReplies` once, if ever; perhaps before it returns. */
  readonly send: (increments: readonly Increment[], onReplies: OnIncrementReplies) => void
  readonly touchedKeys: TouchedKeys
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

/**
 * The replies in the order of the increments. Where some are missing at the end, the problem says why; its
 * text reaches the callers.
 */
export type OnIncrementReplies = (replies: readonly IncrementReply[], problem: string | undefined) => void

/** A call of `add` that waits for its values. */
interface Add extends Waiting {
  readonly batch: readonly Hit[]
  readonly resolve: (values: readonly number[]) => void
}

const closedText = 'the counters are closed'

export function createPipeline(options: PipelineOptions): Pipeline {
  const { send, touchedKeys, deadlineMs, windowMs, limit, maxHitsInFlight, clock = systemClock } = options
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
    if (limit > 0 && collectedHits >= limit) sendCollected()
  }

  function sendCollected(): void {
    const hits = collectedHits
    // Who was told that the deadline has passed is not counted any more, where that can still be helped.
    const adds = collected.filter(add => !add.settled)
    dropCollected()
    const sums = sumEqualKeys(adds, touchedKeys)
    send(sums.increments, (replies, problem) => {
      hitsInFlight -= hits
      settle(adds, sums, replies, problem)
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
 * With no window, the end of the turn is after all sockets that are readable in it: their calls go together.
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
function settle(
  adds: readonly Add[],
  sums: Sums,
  replies: readonly IncrementReply[],
  problem = 'the backend left out a reply',
): void {
  let from = 0
  for (const add of adds) {
    const count = add.batch.length
    if (!add.settled) {
      add.settled = true
      const values = valuesOf(sums, from, count, replies) ?? new CountersError(problem)
      if (values instanceof CountersError) add.reject(values)
      else add.resolve(values)
    }
    from += count
  }
}
