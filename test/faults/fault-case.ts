import type { Goal } from '../bench/goals.ts'
import type { LatencyFigures } from '../bench/percentiles.ts'
import type { Stages } from './stages.ts'

/** One line of the table: something that goes wrong, and what the service makes of it. */
export interface FaultCase {
  readonly name: string
  /** What goes wrong, in a few words. */
  readonly title: string
  /** Programs of the machine. */
  readonly needs: readonly string[]
  run(extent: Extent): Promise<FaultReport>
}

/** How long and how much. */
export interface Extent {
  /** Decides what happens by chance. */
  readonly seed: number
  readonly callsPerSecond: number
  readonly connections: number
  /** Load before the first fault. */
  readonly warmUpMs: number
  /** How long the fault holds, time after time; answers are measured in the first of them. */
  readonly holdsMs: readonly number[]
  /** BACKEND_DEADLINE. */
  readonly deadlineMs: number
  readonly exactness: { readonly processes: number; readonly connections: number; readonly limit: number }
  readonly stages: Stages
}

export interface FaultReport {
  /** To the calls that were due while the fault held. */
  readonly answers?: AnswerFigures
  readonly counts?: CountFigures
  /** From the end of the fault to the last error after it, or else to the first answer; each time. */
  readonly recoveriesMs?: readonly number[]
  readonly rssGrowthMiB?: number
  readonly goAways?: number
  readonly goals: readonly GoalLine[]
  /** What must not be, however slow the machine is. */
  readonly violations: readonly string[]
  readonly notes: readonly string[]
}

export interface AnswerFigures extends LatencyFigures {
  readonly ok: number
  readonly over: number
  readonly errors: number
  readonly maxMs: number
  /** When the circuit breaker had time to open; undefined when nothing was measured then. */
  readonly openP99Ms: number | undefined
  /** Every error by its status and message, the most frequent first. */
  readonly messages: readonly (readonly [message: string, count: number])[]
}

/** What became of one limit. */
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
