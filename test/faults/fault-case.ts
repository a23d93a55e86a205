import type { Goal } from '../bench/goals.ts'
import type { LatencyFigures } from '../bench/percentiles.ts'
import type { SetupPool } from './setups.ts'

/** One row of the table: a fault, and its effects on the service. */
export interface FaultCase {
  readonly name: string
  /** The fault in a few words. */
  readonly title: string
  /** Programs that must be on the PATH. */
  readonly needs: readonly string[]
  run(extent: CaseOptions): Promise<FaultReport>
}

/** The duration and the load of a case. */
export interface CaseOptions {
  /** Determines the random behaviour. */
  readonly seed: number
  readonly callsPerSecond: number
  readonly connections: number
  /** The duration of the load before the first fault. */
  readonly warmUpMs: number
  /** The durations of the consecutive injections; answers are measured in the first one. */
  readonly holdsMs: readonly number[]
  /** BACKEND_DEADLINE. */
  readonly deadlineMs: number
  readonly exactness: { readonly processes: number; readonly connections: number; readonly limit: number }
  readonly setups: SetupPool
}

export interface FaultReport {
  /** The answers to the calls that were due during the fault. */
  readonly answers?: AnswerFigures
  readonly counts?: CountFigures
  /** The times from the end of the fault to the last error after it, or else to the first answer. */
  readonly recoveriesMs?: readonly number[]
  readonly rssGrowthMiB?: number
  readonly goAways?: number
  readonly goals: readonly GoalLine[]
  /** Violations that do not depend on the speed of the machine. */
  readonly violations: readonly string[]
  readonly notes: readonly string[]
}

export interface AnswerFigures extends LatencyFigures {
  readonly ok: number
  readonly over: number
  readonly errors: number
  readonly maxMs: number
  /** The latency after the circuit breaker had time to open; undefined when it was not measured. */
  readonly openP99Ms: number | undefined
  /** The lateness of a paced load, which the latencies do not include; undefined for another load. */
  readonly loadLate: LatencyFigures | undefined
  /** Every error by its status and message, the most frequent first. */
  readonly messages: readonly (readonly [message: string, count: number])[]
}

/** The figures of one limit. */
export interface CountFigures {
  readonly limit: number
  /** Calls that were answered OK. */
  readonly admitted: number
  /** Hits that were counted and whose callers got no decision. */
  readonly unanswered: number
}

export interface GoalLine {
  readonly what: string
  readonly unit: string
  readonly goal: Goal
  readonly figure: number
}
