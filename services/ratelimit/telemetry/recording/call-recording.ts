import type { DecisionRequest } from '../../limiter/decision.ts'
import { countRecords, Generation, maxGenerationSeconds, type ReadStep } from './generation.ts'
import { hasSampled } from './sampling.ts'

export interface RecordedCalls {
  /** Unix time in whole seconds. Every call since then is recorded unless its key is not sampled. */
  readonly fromSeconds: number
  /** Whether no call since the start of the process has been overwritten. */
  readonly isWhole: boolean
  /** The resolution of the times of calls: 1 or 1,000 ms. */
  readonly resolutionMs: number
  /** The number of all calls of the domain since `fromSeconds`, recorded or not. */
  readonly calls: number
  /** How often half of the keys were dropped. */
  readonly halvings: number
  /** Keeps the records until the returned function is called: until then, later calls use other memory. */
  hold(): () => void
  /**
   * Iterates over the records of all domains, in the order of their decisions. Keys that this number of
   * halvings drops are left out. `hold` must be called before.
   */
  records(halvings?: number): Generator<ReadStep, undefined>
  /** The number of records of all domains that `records` reads. */
  readonly length: number
  /** The number of records of the domain, estimated from its share of the calls. */
  readonly ofDomain: number
}

interface RecordingLimits {
  /** Half of the keys are dropped when one second has more recorded calls than this. */
  readonly callsPerSecond: number
  /** Less is recorded when one half of the memory would be full in fewer seconds than this. */
  readonly seconds: number
}

const defaultLimits: RecordingLimits = { callsPerSecond: 20_000, seconds: 60 }

/**
 * The latest calls, in fixed memory. Equal calls of one millisecond are one record of 12 bytes, unless others came
 * between them and the order matters (`countsOneHitEach`). The text of a call is stored once in each half of the memory. When one half is full, the half with older calls is
 * overwritten.
 *
 * If there are more calls than fit, their times are rounded down to whole seconds, so that a busy key takes
 * one record a second. If that does not suffice, or if there are more calls than the process has time to
 * record, half of the recorded keys are dropped, as often as necessary. A key is a descriptor with its
 * values. A hash chooses the keys, so that all calls of a key are recorded or none, in every process, and a
 * replay of a recorded key counts what the limiter counted.
 */
export class CallRecording {
  readonly bytes: number
  readonly #startSeconds: number
  readonly #limits: RecordingLimits
  #newer: Generation | undefined
  #older: Generation | undefined
  #generations = 0
  /** The number of calls since the start of the process, recorded or not. */
  calls = 0
  #second = 0
  #recordedInSecond = 0

  /** @param startSeconds the start of the process, as Unix time */
  constructor(bytes: number, startSeconds: number, limits: RecordingLimits = defaultLimits) {
    this.bytes = bytes
    this.#startSeconds = startSeconds
    this.#limits = limits
  }

  /**
   * @param nowMs the time by the clock of the process, which chooses the windows
   * @param atMicros the time at which the backend decided about the call, if it did so by its own clock
   */
  record(request: DecisionRequest, nowMs: number, atMicros?: number): void {
    this.calls += 1
    const nowSeconds = Math.floor(nowMs / 1000)
    if (nowSeconds !== this.#second) this.#startSecond(nowSeconds)
    const current = this.#newer ?? this.#next(nowSeconds, 0, false)
    current.count(request.domain)
    if (current.halvings > 0 && !hasSampled(request, current.halvings)) return
    this.#recordedInSecond += 1
    if (this.#recordedInSecond > this.#limits.callsPerSecond) {
      this.#recordedInSecond = 1
      current.halve()
    }
    const aheadMicros = atMicros === undefined ? 0 : atMicros - nowMs * 1000
    if (current.record(request, nowMs, aheadMicros)) return
    this.#replaceFull(current, nowSeconds).record(request, nowMs, aheadMicros)
  }

  /** Returns the recorded calls of a domain. Calls that are recorded later are not among them. */
  of(domain: string): RecordedCalls {
    const generations = this.#readable()
    for (const generation of generations) generation.freeze()
    const lengths = generations.map(({ length }) => length)
    const least = Math.max(0, ...generations.map(each => each.halvings))
    const countCalls = ({ domains }: Generation) => domains.get(domain)?.calls ?? 0
    const isWhole = this.#generations <= generations.length
    const ofDomain = generations.map(each => (each.length * countCalls(each)) / Math.max(1, each.calls))
    return {
      fromSeconds: (isWhole ? undefined : generations[0]?.startSeconds) ?? this.#startSeconds,
      isWhole,
      resolutionMs: generations.some(({ isCoarse }) => isCoarse) ? 1000 : 1,
      calls: sum(generations.map(countCalls)),
      halvings: least,
      length: sum(lengths),
      ofDomain: Math.ceil(sum(ofDomain)),
      hold() {
        for (const generation of generations) generation.readers += 1
        let isHeld = true
        return () => {
          if (isHeld) for (const generation of generations) generation.readers -= 1
          isHeld = false
        }
      },
      *records(halvings = least) {
        for (const [index, generation] of generations.entries()) {
          yield* generation.read(domain, lengths[index] ?? 0, Math.max(halvings, least))
        }
        return undefined
      },
    }
  }

  /**
   * Returns the generations to read: both, or only the newer one if it has a larger share of the calls and
   * has lasted long enough.
   */
  #readable(): readonly Generation[] {
    const [newer, older] = [this.#newer, this.#older]
    if (newer === undefined) return []
    if (older === undefined) return [newer]
    const suffices = this.#second - newer.startSeconds >= this.#limits.seconds
    const hasMore = older.halvings > newer.halvings || (older.isCoarse && !newer.isCoarse)
    return suffices && hasMore ? [newer] : [older, newer]
  }

  #next(nowSeconds: number, halvings: number, isCoarse: boolean): Generation {
    const reused = this.#older !== undefined && this.#older.readers === 0 ? this.#older : undefined
    const cleared = reused ?? new Generation(this.bytes / 2, this.#limits.seconds)
    this.#older = this.#newer
    cleared.clear(nowSeconds, halvings, isCoarse)
    this.#newer = cleared
    this.#generations += 1
    return cleared
  }

  /** Begins a generation after a full one. If that was full too early, the new generation records less. */
  #replaceFull(full: Generation, nowSeconds: number): Generation {
    const lasted = Math.max(1, nowSeconds - full.startSeconds)
    const early = Math.max(0, Math.ceil(Math.log2(this.#limits.seconds / lasted)))
    if (early > 0 && !full.isCoarse && full.usedByRecords() === full.used())
      return this.#next(nowSeconds, full.halvings, true)
    return this.#next(nowSeconds, full.halvings + early, full.isCoarse)
  }

  /**
   * Begins a generation that records more calls or finer times if there is room and time for them. If the
   * current generation has lasted too long, begins one like it.
   */
  #startSecond(nowSeconds: number): void {
    const { callsPerSecond, seconds } = this.#limits
    const calls = this.#recordedInSecond
    this.#second = nowSeconds
    this.#recordedInSecond = 0
    const current = this.#newer
    if (current === undefined) return
    const { halvings, isCoarse } = current
    const lasted = nowSeconds - current.startSeconds
    if (Math.abs(lasted) > maxGenerationSeconds) {
      this.#next(nowSeconds, halvings, isCoarse)
      return
    }
    if (lasted < seconds) return
    if (halvings > 0) {
      const usedInTime = (current.used() * seconds) / lasted
      const times = Math.min(0.5 / usedInTime, callsPerSecond / 2 / Math.max(1, calls))
      if (times >= 2) this.#next(nowSeconds, Math.max(0, halvings - Math.floor(Math.log2(times))), isCoarse)
    } else if (isCoarse && calls * seconds * 2 < countRecords(this.bytes / 2)) {
      this.#next(nowSeconds, 0, false)
    }
  }
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)
