import { latencyFigures } from '../bench/percentiles.ts'
import type { AnswerFigures } from './fault-case.ts'
import type { CallRecord } from './load/fault-load.ts'

type CallLatencies = Pick<AnswerFigures, 'p50Ms' | 'p99Ms' | 'p999Ms' | 'maxMs' | 'loadLate'>

/** Returns the latencies of calls, and the lateness of the load. */
export function callLatencies(calls: readonly CallRecord[]): CallLatencies {
  const latencies = Float64Array.from(calls, ({ latencyMs }) => latencyMs)
  return {
    ...latencyFigures(latencies),
    maxMs: latencies.reduce((max, ms) => Math.max(max, ms), 0),
    loadLate: latencyFigures(Float64Array.from(calls, ({ loadLateMs }) => loadLateMs)),
  }
}
