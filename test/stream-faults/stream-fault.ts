import type { GoalLine } from '../faults/fault-case.ts'
import type { Cleanup } from '../support/tollway.ts'

/** Injected while streams run through a broker. */
export interface StreamFault {
  readonly name: string
  readonly title: string
  /** Programs that must be on the PATH. */
  readonly needs: readonly string[]
  run(options: FaultRun): Promise<StreamFaultReport>
}

export interface FaultRun {
  /** Ends the processes and connections of the case. */
  readonly t: Cleanup
  /** Determines the random behaviour. */
  readonly seed: number
  /** Whether the run has the size of a report. Otherwise it takes a second or two, as in the tests. */
  readonly isLong: boolean
}

export interface StreamFaultReport {
  /** Messages, consumers, faults and so on. */
  readonly size: string
  /** Figures that depend on the speed of the machine. */
  readonly goals: readonly GoalLine[]
  /** Violations do not depend on the speed of the machine. */
  readonly violations: readonly string[]
}

export function atMost(maximum: number, unit: string, what: string, figure: number): GoalLine {
  return { what, unit, goal: { atMost: maximum }, figure }
}
