import type { DecisionRequest } from '../../limiter/decision.ts'
import { Generation, type ReadStep } from './generation.ts'
import { hasSampled } from './sampling.ts'

/**
 * The latest calls, in fixed memory. Equal calls of one second are one record, so a busy key takes 12 bytes a
 * second, and the text of a call is stored once in each half of the memory. When one half is full, the other
 * half, which has older calls, is overwritten.
 *
 * If there are more calls than the process has time to record, or more keys than fit, the recorded keys are
 * halved, as often as necessary. A key is a descriptor with its values. It is chosen by a hash, so that all
 * its calls are recorded or none, and a replay of a recorded key counts what the limiter counted.
 */
export interface CallRecording {
  record(request: DecisionRequest, nowSeconds: number): void
  /** The number of calls since the start, recorded or not. */
  readonly calls: number
  /** Returns the recorded calls of a domain. A later `record` does not change the calls to iterate. */
  of(domain: string): RecordedCalls
}

export interface RecordedCalls {
  /** Unix time of the first call of the recording, in whole seconds; undefined before it. */
  readonly fromSeconds: number | undefined
  /** All calls of the domain since then, recorded or not. */
  readonly calls: number
  /** The recorded part of the keys: 1 for all, 1/2, 1/4 and so on. */
  readonly share: number
  /**
   * The records of all domains, oldest first. Releases the memory at the end, and when the iteration is
   * closed.
   */
  records(): Generator<ReadStep, undefined>
  /** The number of records of all domains that `records` reads. */
  readonly length: number
}

export interface RecordingLimits {
  /** The calls of one second after which the keys are halved. */
  readonly callsPerSecond: number
  /** The keys are halved if one half of the memory would be full earlier. */
  readonly seconds: number
}

const defaultLimits: RecordingLimits = { callsPerSecond: 20_000, seconds: 60 }

export function createCallRecording(bytes: number, limits = defaultLimits): CallRecording {
  return new Recording(bytes, limits)
}

class Recording implements CallRecording {
  readonly #bytes: number
  readonly #limits: RecordingLimits
  #newer: Generation | undefined
  #older: Generation | undefined
  calls = 0
  #second = 0
  #recordedInSecond = 0

  constructor(bytes: number, limits: RecordingLimits) {
    this.#bytes = bytes
    this.#limits = limits
  }

  record(request: DecisionRequest, nowSeconds: number): void {
    this.calls += 1
    if (nowSeconds !== this.#second) this.#startSecond(nowSeconds)
    const current = this.#newer ?? this.#next(nowSeconds, 0)
    current.count(request.domain)
    if (current.halvings > 0 && !hasSampled(request, current.halvings)) return
    this.#recordedInSecond += 1
    if (this.#recordedInSecond > this.#limits.callsPerSecond) {
      this.#recordedInSecond = 1
      current.halve()
    }
    if (current.record(request, nowSeconds)) return
    this.#replaceFull(current, nowSeconds).record(request, nowSeconds)
  }

  of(domain: string): RecordedCalls {
    const generations = this.#readable()
    for (const generation of generations) generation.seal()
    const lengths = generations.map(({ length }) => length)
    const halvings = Math.max(0, ...generations.map(each => each.halvings))
    return {
      fromSeconds: generations[0]?.startSeconds,
      calls: generations.reduce((sum, { domains }) => sum + (domains.get(domain)?.calls ?? 0), 0),
      share: 2 ** -halvings,
      length: lengths.reduce((sum, length) => sum + length, 0),
      *records() {
        for (const generation of generations) generation.readers += 1
        try {
          for (const [index, generation] of generations.entries()) {
            yield* generation.read(domain, lengths[index] ?? 0, halvings)
          }
        } finally {
          for (const generation of generations) generation.readers -= 1
        }
        return undefined
      },
    }
  }

  /** The newer generation alone once it is long enough, if it has more keys than the older one. */
  #readable(): readonly Generation[] {
    const [newer, older] = [this.#newer, this.#older]
    if (newer === undefined) return []
    const suffices = this.#second - newer.startSeconds >= this.#limits.seconds
    if (older === undefined || (suffices && older.halvings > newer.halvings)) return [newer]
    return [older, newer]
  }

  #next(nowSeconds: number, halvings: number): Generation {
    const reused = this.#older !== undefined && this.#older.readers === 0 ? this.#older : undefined
    const cleared = reused ?? new Generation(this.#bytes / 2, this.#limits.seconds)
    this.#older = this.#newer
    cleared.clear(nowSeconds, halvings)
    this.#newer = cleared
    return cleared
  }

  /** Replaces a full generation. One that was full early is followed by one with fewer keys. */
  #replaceFull(full: Generation, nowSeconds: number): Generation {
    const lasted = Math.max(1, nowSeconds - full.startSeconds)
    const early = Math.ceil(Math.log2(this.#limits.seconds / lasted))
    return this.#next(nowSeconds, full.halvings + Math.max(0, early))
  }

  /** Begins a generation with more keys if there is room and time for them. */
  #startSecond(nowSeconds: number): void {
    const { callsPerSecond, seconds } = this.#limits
    const calls = this.#recordedInSecond
    this.#second = nowSeconds
    this.#recordedInSecond = 0
    const current = this.#newer
    if (current === undefined || current.halvings === 0) return
    const lasted = nowSeconds - current.startSeconds
    if (lasted < seconds) return
    const usedInTime = (current.used() * seconds) / lasted
    const times = Math.min(0.5 / usedInTime, callsPerSecond / 2 / Math.max(1, calls))
    if (times >= 2) this.#next(nowSeconds, Math.max(0, current.halvings - Math.floor(Math.log2(times))))
  }
}
