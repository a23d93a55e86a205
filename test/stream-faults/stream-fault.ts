import type { GoalLine } from '../faults/fault-case.ts'
import type { Cleanup } from '../support/tollway.ts'

/** A fault of the broker's surroundings, injected while streams run. */
export interface StreamFault {
  readonly name: string
  readonly title: string
  /** Programs that must be on the PATH. */
  readonly needs: readonly string[]
  run(extent: Extent): Promise<StreamFaultReport>
}

export interface Extent {
  /** Ends the processes and connections of the case. */
  readonly t: Cleanup
  /** Determines the random behaviour. */
  readonly seed: number
  /** The size for a report; otherwise the size for each run of the tests, a second or two. */
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
