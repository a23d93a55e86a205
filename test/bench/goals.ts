/** What a figure is to be. A ratio is ours to the yardstick's. */
export type Goal = { readonly atMost: number } | { readonly atLeast: number }

/** `below half` is what the short form of the benchmarks fails on. */
export type Verdict = 'met' | 'missed' | 'below half'

/** A figure that is no number misses by more than half. */
export function judge(goal: Goal, figure: number): Verdict {
  const attained = 'atMost' in goal ? goal.atMost / figure : figure / goal.atLeast
  if (attained >= 1) return 'met'
  return attained >= 0.5 ? 'missed' : 'below half'
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
