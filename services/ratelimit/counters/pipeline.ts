import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { CountersError, type Hit, maxCount } from './counters.ts'

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
  /**
   * Writes the increments at once and answers a reply for each, in their order, if ever. A rejection stands
   * for each reply that is missing; its message reaches the callers.
   */
  readonly send: (increments: readonly Increment[]) => Promise<readonly Reply[]>
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

/** What goes to the backend for one key; it stands for one hit or for several. */
export interface Increment {
  readonly key: string
  /** Whole, up to 2^53-1; 0 only looks. */
  readonly by: number
  readonly expirySeconds: number
}

/** The counter's exact value after an increment, or why there is none. */
export type Reply = number | bigint | CountersError

/** A call that waits for its values. */
interface Add {
  readonly batch: readonly Hit[]
  readonly startedMs: number
  /** Both do nothing after the first call of either. */
  readonly resolve: (values: readonly number[]) => void
  readonly reject: (error: CountersError) => void
  settled: boolean
}

/** The calls that are sent together. */
interface Flush {
  readonly adds: Add[]
  hits: number
  deadline: NodeJS.Timeout
  readonly cancelWindow: () => void
}

export function createPipeline(options: PipelineOptions): Pipeline {
  const { send, deadlineMs, windowMs, limit, maxHitsInFlight, clock = systemClock } = options
  const unanswered = new Set<Flush>()
  let collecting: Flush | undefined
  let hitsInFlight = 0
  let closed = false

  function open(): Flush {
    const flush: Flush = {
      adds: [],
      hits: 0,
      deadline: setTimeout(() => checkDeadline(flush), deadlineMs),
      cancelWindow: schedule(sendCollected, windowMs),
    }
    unanswered.add(flush)
    return flush
  }

  /**
   * A turn in which the event loop was busy must not pass for a slow backend: what has arrived is read first.
   */
  function checkDeadline(flush: Flush): void {
    setImmediate(rejectLate, flush)
  }

  function rejectLate(flush: Flush): void {
    const nowMs = clock.monotonicMs()
    let nextMs = Number.POSITIVE_INFINITY
    for (const add of flush.adds) {
      if (add.settled) continue
      const leftMs = add.startedMs + deadlineMs - nowMs
      if (leftMs > 0) nextMs = Math.min(nextMs, leftMs)
      else fail(add, new CountersError(`the backend did not answer within ${deadlineMs} ms`))
    }
    if (nextMs < Number.POSITIVE_INFINITY) flush.deadline = setTimeout(() => checkDeadline(flush), nextMs)
  }

  function sendCollected(): void {
    const flush = collecting
    if (flush === undefined) return
    collecting = undefined
    flush.cancelWindow()
    // Who was told that the deadline has passed is not counted any more, where that can still be helped.
    const adds = flush.adds.filter(add => !add.settled)
    const sums = sumEqualKeys(adds.map(add => add.batch))
    const end = (replies: readonly Reply[], missing: CountersError) => {
      unanswered.delete(flush)
      clearTimeout(flush.deadline)
      hitsInFlight -= flush.hits
      for (const [index, add] of adds.entries()) settle(add, sums.valuesOf(index, replies, missing))
    }
    send(sums.increments).then(
      replies => end(replies, new CountersError('the backend left out a reply')),
      error => end([], new CountersError(error instanceof Error ? error.message : String(error))),
    )
  }

  return {
    add(batch) {
      if (closed) return Promise.reject(new CountersError('the counters are closed'))
      if (batch.length === 0) return Promise.resolve([])
      if (hitsInFlight + batch.length > maxHitsInFlight) {
        const problem = `too many hits in flight: ${hitsInFlight} and ${batch.length} more`
        return Promise.reject(new CountersError(`${problem}; the limit is ${maxHitsInFlight}`))
      }
      hitsInFlight += batch.length
      return new Promise((resolve, reject) => {
        collecting ??= open()
        collecting.adds.push({ batch, startedMs: clock.monotonicMs(), resolve, reject, settled: false })
        collecting.hits += batch.length
        if (limit > 0 && collecting.hits >= limit) sendCollected()
      })
    },
    close() {
      closed = true
      collecting?.cancelWindow()
      collecting = undefined
      for (const flush of unanswered) {
        clearTimeout(flush.deadline)
        for (const add of flush.adds) fail(add, new CountersError('the counters are closed'))
      }
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

function settle(add: Add, values: readonly number[] | CountersError): void {
  if (values instanceof CountersError) fail(add, values)
  else {
    add.settled = true
    add.resolve(values)
  }
}

function fail(add: Add, error: CountersError): void {
  add.settled = true
  add.reject(error)
}

export interface Sums {
  readonly increments: readonly Increment[]
  /**
   * The values of one batch, given the replies to all increments; `missing` for a reply that is not there.
   */
  valuesOf(
    batch: number,
    replies: readonly Reply[],
    missing: CountersError,
  ): readonly number[] | CountersError
}

/** An increment while it is made. */
interface Sum {
  readonly key: string
  readonly index: number
  by: number
  expirySeconds: number
}

/** A hit's place in its sum. */
interface Share {
  readonly sum: Sum
  /** This hit and those before it in the sum. */
  readonly through: number
}

/**
 * Sums the hits of equal keys. A sum stays below 2^53: a hit that would exceed it starts another one, so that
 * sums are exact, and very large hits meet the backend's own limit alone.
 */
export function sumEqualKeys(batches: readonly (readonly Hit[])[]): Sums {
  const sums: Sum[] = []
  const latest = new Map<string, Sum>()

  function shareOf({ key, hits, expirySeconds }: Hit): Share {
    let sum = latest.get(key)
    if (sum === undefined || sum.by > maxCount - hits) {
      sum = { key, index: sums.length, by: 0, expirySeconds }
      sums.push(sum)
      latest.set(key, sum)
    }
    sum.by += hits
    sum.expirySeconds = Math.max(sum.expirySeconds, expirySeconds)
    return { sum, through: sum.by }
  }

  const shares = batches.map(batch => batch.map(shareOf))
  return {
    increments: sums,
    valuesOf(batch, replies, missing) {
      const values: number[] = []
      for (const { sum, through } of shares[batch] ?? []) {
        const reply = replies[sum.index] ?? missing
        if (reply instanceof CountersError) return reply
        values.push(valueAfter(reply, sum.by, through))
      }
      return values
    },
  }
}

/** The counter right after the share's own hit; `reply` is its value after the whole sum. */
function valueAfter(reply: number | bigint, sum: number, through: number): number {
  if (typeof reply === 'number' && reply <= maxCount) return reply - sum + through
  const value = BigInt(reply) - BigInt(sum) + BigInt(through)
  return value > maxCount ? maxCount : Number(value)
}
