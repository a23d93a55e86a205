import type { Goal } from './goals.ts'
import type { Measurement } from './measure.ts'

/** How long and how often is measured. */
export interface Extent {
  readonly rounds: number
  readonly roundMs: number
  /** Before each round. */
  readonly warmUpMs: number
  /** Before the first round of each server: until its code is compiled and its windows are known. */
  readonly firstWarmUpMs: number
  /** Of a case that looks for what grows. */
  readonly soakMs: number
}

export interface BenchCase {
  /** By which it is chosen. */
  readonly name: string
  readonly title: string
  /** Programs that must be on the PATH. */
  readonly needs: readonly string[]
  /** The short form leaves it out unless it is asked for by its name. */
  readonly long?: boolean
  /** @throws SettingRefused when the service does not know what this is about yet. */
  run(extent: Extent): Promise<CaseResult>
}

export interface CaseResult {
  readonly rows: readonly GoalRow[]
  /** Everything that was measured, by server: a list of rounds. */
  readonly measurements: Readonly<Record<string, readonly Partial<Measurement>[]>>
  /** What a reader must know of this run. */
  readonly notes: readonly string[]
}

/** A line of the table of goals. */
export interface GoalRow {
  readonly what: string
  /** Empty for a ratio. */
  readonly unit: string
  /** What the goal is about, one a round. */
  readonly figures: readonly number[]
  /** undefined for what is told only. */
  readonly goal: Goal | undefined
  /** Medians of what was compared, with their unit; empty when nothing was. */
  readonly compared: string
  /**
   * A busy machine changes it little. Then the best round is no better judge than the median, and a worse one of
   * the time of a processor, which is counted in hundredths of a second: a short round can have none.
   */
  readonly steady?: boolean
  /** Which of the figures the goal is held against; the median when left out. */
  readonly judgedBy?: 'median' | 'best'
  /** Why a goal that is missed is not held against us in this run. */
  readonly excuse?: string
}
