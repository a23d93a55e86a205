/** The goal of a figure. A ratio is the service's figure to the yardstick's. */
export type Goal = ({ readonly atMost: number } | { readonly atLeast: number }) & {
  /**
   * The worst acceptable figure if half of the goal is known to be unreachable: the goal is still missed, but
   * the reached figure is guarded.
   */
  readonly bearable?: number
}

/** The short form of the benchmarks fails on `below half`. */
export type Verdict = 'met' | 'missed' | 'below half'

/** NaN misses by more than half. */
export function judge(goal: Goal, figure: number): Verdict {
  const isMet = (wanted: number) => ('atMost' in goal ? figure <= wanted : figure >= wanted)
  const [wanted, half] = 'atMost' in goal ? [goal.atMost, goal.atMost * 2] : [goal.atLeast, goal.atLeast / 2]
  if (isMet(wanted)) return 'met'
  return isMet(goal.bearable ?? half) ? 'missed' : 'below half'
}

/** Returns the figure that is closest to the goal. */
export function bestOf(goal: Goal, figures: readonly number[]): number {
  return 'atMost' in goal ? Math.min(...figures) : Math.max(...figures)
}

/** Formats a goal: `≤ 1/6`, `≥ 3`, `≤ 120 MiB`. */
export function describeGoal(goal: Goal, unit: string): string {
  const [sign, value] = 'atMost' in goal ? ['≤', goal.atMost] : ['≥', goal.atLeast]
  const inverse = 1 / value
  const isPart = unit === '' && value < 1 && Math.abs(inverse - Math.round(inverse)) < 1e-9
  return `${sign} ${isPart ? `1/${Math.round(inverse)}` : value}${unit === '' ? '' : ` ${unit}`}`
}
