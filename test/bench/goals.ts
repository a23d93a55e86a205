/** What a figure is to be. A ratio is ours to the yardstick's. */
export type Goal = ({ readonly atMost: number } | { readonly atLeast: number }) & {
  /**
   * The figure that is just borne where half of the goal is known to be out of reach: the goal is still missed, and
   * what was reached is still guarded.
   */
  readonly bearable?: number
}

/** `below half` is what the short form of the benchmarks fails on. */
export type Verdict = 'met' | 'missed' | 'below half'

/** A figure that is no number misses by more than half. */
export function judge(goal: Goal, figure: number): Verdict {
  const isMet = (wanted: number) => ('atMost' in goal ? figure <= wanted : figure >= wanted)
  const [wanted, half] = 'atMost' in goal ? [goal.atMost, goal.atMost * 2] : [goal.atLeast, goal.atLeast / 2]
  if (isMet(wanted)) return 'met'
  return isMet(goal.bearable ?? half) ? 'missed' : 'below half'
}

/** The figure of several that comes nearest to the goal. */
export function bestOf(goal: Goal, figures: readonly number[]): number {
  return 'atMost' in goal ? Math.min(...figures) : Math.max(...figures)
}

/** `≤ 1/6`, `≥ 3`, `≤ 120 MiB`. */
export function describeGoal(goal: Goal, unit: string): string {
  const [sign, value] = 'atMost' in goal ? ['≤', goal.atMost] : ['≥', goal.atLeast]
  const inverse = 1 / value
  const isPart = unit === '' && value < 1 && Math.abs(inverse - Math.round(inverse)) < 1e-9
  return `${sign} ${isPart ? `1/${Math.round(inverse)}` : value}${unit === '' ? '' : ` ${unit}`}`
}
