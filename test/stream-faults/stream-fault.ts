import type { GoalLine } from '../faults/fault-case.ts'
import type { Cleanup } from '../support/tollway.ts'

/** A fault that is injected while streams run through a broker. */
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
  /** Whether it has the size of a report; otherwise it takes a second or two, as in the tests. */
  readonly isLong: boolean
}

export interface StreamFaultReport {
  /** The number of messages, consumers, faults and so on of this run. */
  readonly size: string
  /** Figures that depend on the speed of the machine. */
  readonly goals: readonly GoalLine[]
  /** Violations that do not depend on the speed of the machine. */
  readonly violations: readonly string[]
}

/** Returns a goal of a maximum. */
export function atMost(maximum: number, unit: string, what: string, figure: number): GoalLine {
  return { what, unit, goal: { atMost: maximum }, figure }
}
