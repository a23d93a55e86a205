import type { GoalRow } from './bench-case.ts'
import { formatNumber } from './format-number.ts'
import type { Goal } from './goals.ts'
import type { Measurement } from './measure.ts'
import { median } from './percentiles.ts'

/** A row of the table of goals, before the measurement. */
export interface Comparison {
  readonly what: string
  readonly figure: keyof Measurement
  readonly unit: string
  /** The ratio of the service's figure to the other's, or the service's figure. */
  readonly of: 'ratio' | 'ours'
  readonly goal?: Goal
  /** The contestant of the comparison. Defaults to the first of the others. */
  readonly against?: string
  /** The goal is limited by the core of Redis and the load. */
  readonly boundByOtherCore?: boolean
}

const steadyFigures: ReadonlySet<keyof Measurement> = new Set([
  'cpuMicros',
  'redisCommands',
  'rssMiB',
  'rssBeyondNodeMiB',
])

/** The share above which a core counts as full, and below which a server counts as waiting. */
const full = 0.9

/**
 * Compares round by round, so that both sides of a ratio are from the same minute; no rounds without a
 * yardstick.
 */
export function compareRounds(
  comparisons: readonly Comparison[],
  ours: readonly Partial<Measurement>[],
  yardstick: readonly Partial<Measurement>[],
): readonly GoalRow[] {
  return comparisons.map(({ what, figure, unit, of, goal, boundByOtherCore }) => {
    const mine = ours.map(round => round[figure] ?? Number.NaN)
    const theirs = yardstick.map(round => round[figure] ?? Number.NaN)
    const ratios = roundRatios(figure, ours, yardstick)
    const excused = boundByOtherCore === true && otherCoreIsFull(ours)
    return {
      what,
      unit: of === 'ratio' ? '' : unit,
      figures: of === 'ratio' ? ratios : mine,
      goal,
      steady: steadyFigures.has(figure),
      compared:
        yardstick.length === 0
          ? ''
          : `${formatNumber(median(mine))} / ${formatNumber(median(theirs))} ${unit}`.trim(),
      ...(excused && { excuse: 'the other core was full' }),
    }
  })
}

/** Returns the ratios of a figure of one side to that of the other, round by round. */
export function roundRatios(
  figure: keyof Measurement,
  rounds: readonly Partial<Measurement>[],
  others: readonly Partial<Measurement>[],
): readonly number[] {
  return rounds.map((round, place) => (round[figure] ?? Number.NaN) / (others[place]?.[figure] ?? Number.NaN))
}

function otherCoreIsFull(ours: readonly Partial<Measurement>[]): boolean {
  const busy = (figure: 'serverBusy' | 'otherCoreBusy') => median(ours.map(round => round[figure] ?? 0))
  return busy('otherCoreBusy') > full && busy('serverBusy') < full
}

export const cpuRatio: Comparison = { what: 'CPU a decision', figure: 'cpuMicros', unit: 'µs', of: 'ratio' }

export const rateRatio: Comparison = {
  what: 'decisions/s',
  figure: 'decisionsPerSecond',
  unit: '/s',
  of: 'ratio',
  boundByOtherCore: true,
}

export function latencyRatio(figure: 'p50Ms' | 'p99Ms', atMost: number): Comparison {
  return { what: figure.slice(0, 3), figure, unit: 'ms', of: 'ratio', goal: { atMost } }
}

/** The RSS of the process, without that of an idle Node process. */
export function rssBeyondNode(goal: Goal): Comparison {
  return {
    what: 'RSS beyond bare Node',
    figure: 'rssBeyondNodeMiB',
    unit: 'MiB',
    of: 'ours',
    goal,
  }
}

export function redisCommands(atMost: number): Comparison {
  return {
    what: 'Redis commands a decision',
    figure: 'redisCommands',
    unit: 'commands',
    of: 'ours',
    goal: { atMost },
  }
}
