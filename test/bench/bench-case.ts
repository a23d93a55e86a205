import type { Goal } from './goals.ts'
import type { Measurement } from './measure.ts'

/** The duration and the number of measurements. */
export interface Extent {
  readonly rounds: number
  readonly roundMs: number
  /** The duration before each round. */
  readonly warmUpMs: number
  /**
   * The duration before the first round of each server: until its code is compiled and its windows are known.
   */
  readonly firstWarmUpMs: number
  /** The duration of a case that measures growth. */
  readonly soakMs: number
}

export interface BenchCase {
  /** The name on the command line. */
  readonly name: string
  readonly title: string
  /** Programs that must be on the PATH. */
  readonly needs: readonly string[]
  /** The short form runs the case only if it is named. */
  readonly long?: boolean
  /** @throws SettingRejected when the service does not support the case yet */
  run(extent: Extent): Promise<CaseResult>
}

export interface CaseResult {
  readonly rows: readonly GoalRow[]
  /** All measurements, by server: a list of rounds. */
  readonly measurements: Readonly<Record<string, readonly Partial<Measurement>[]>>
  /** Remarks about this run. */
  readonly notes: readonly string[]
}

/** A row of the table of goals. */
export interface GoalRow {
  readonly what: string
  /** Empty for a ratio. */
  readonly unit: string
  /** The figures of the goal, one for each round. */
  readonly figures: readonly number[]
  /** Undefined for a figure without a goal. */
  readonly goal: Goal | undefined
  /** The compared medians, with their unit; empty without a comparison. */
  readonly compared: string
  /**
   * A busy machine changes the figure little. Then the best round is no better criterion than the median, and
   * a worse one for CPU time, which is counted in hundredths of a second: a short round can have none.
   */
  readonly steady?: boolean
  /** The figure that is compared with the goal. Defaults to the median. */
  readonly judgedBy?: 'median' | 'best'
  /** The reason why a missed goal is not counted in this run. */
  readonly excuse?: string
}
