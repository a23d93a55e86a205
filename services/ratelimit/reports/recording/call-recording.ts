import type { DecisionRequest } from '../../limiter/decision.ts'
import { Generation, type RecordedCall } from './generation.ts'
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
  /** Oldest first. Releases the memory at the end, and when the iteration is closed. */
  records(): Generator<RecordedCall, undefined>
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
  let newer: Generation | undefined
  let older: Generation | undefined
  let second = 0
  let recordedInSecond = 0

  function next(nowSeconds: number, halvings: number): Generation {
    const reused = older !== undefined && older.readers === 0 ? older : undefined
    const cleared = reused ?? new Generation(bytes / 2, limits.seconds)
    older = newer
    cleared.clear(nowSeconds, halvings)
    newer = cleared
    return cleared
  }

  /** Replaces a full generation. One that was full early is followed by one with fewer keys. */
  function replaceFull(full: Generation, nowSeconds: number): Generation {
    const lasted = Math.max(1, nowSeconds - full.startSeconds)
    return next(nowSeconds, full.halvings + Math.max(0, Math.ceil(Math.log2(limits.seconds / lasted))))
  }

  /** Begins a generation with more keys if there is room and time for them. */
  function startSecond(current: Generation, nowSeconds: number): void {
    const calls = recordedInSecond
    recordedInSecond = 0
    const lasted = nowSeconds - current.startSeconds
    if (current.halvings === 0 || lasted < limits.seconds) return
    const usedInTime = (current.used() * limits.seconds) / lasted
    const times = Math.min(0.5 / usedInTime, limits.callsPerSecond / 2 / Math.max(1, calls))
    if (times >= 2) next(nowSeconds, Math.max(0, current.halvings - Math.floor(Math.log2(times))))
  }

  function record(current: Generation, request: DecisionRequest, nowSeconds: number): void {
    current.count(request.domain)
    if (current.halvings > 0 && !hasSampled(request, current.halvings)) return
    recordedInSecond += 1
    if (recordedInSecond > limits.callsPerSecond) {
      recordedInSecond = 1
      current.halve()
    }
    if (current.record(request, nowSeconds)) return
    replaceFull(current, nowSeconds).record(request, nowSeconds)
  }

  /** The newer generation alone once it is long enough, if it has more keys than the older one. */
  function readable(): readonly Generation[] {
    if (newer === undefined) return []
    const suffices = second - newer.startSeconds >= limits.seconds
    if (older === undefined || (suffices && older.halvings > newer.halvings)) return [newer]
    return [older, newer]
  }

  return {
    record(request, nowSeconds) {
      if (newer !== undefined && nowSeconds !== second) startSecond(newer, nowSeconds)
      second = nowSeconds
      record(newer ?? next(nowSeconds, 0), request, nowSeconds)
    },
    of(domain) {
      const generations = readable()
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
    },
  }
}
