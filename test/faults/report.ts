import { formatNumber } from '../bench/format-number.ts'
import { describeGoal, judge } from '../bench/goals.ts'
import type { LatencyFigures } from '../bench/percentiles.ts'
import type { Table } from '../bench/report.ts'
import type { FaultReport, GoalLine } from './fault-case.ts'

/** The result of a case: its report, or why it was not run. */
export interface TitledReport {
  readonly name: string
  readonly title: string
  readonly result:
    | { readonly kind: 'run'; readonly report: FaultReport }
    | { readonly kind: 'skipped'; readonly reason: string }
}

const none = '–'

/** The answers during each fault, the recovery time, and whether the goals were met. */
export function answerTable(reports: readonly TitledReport[]): Table {
  const heading = [
    ...['Fault', 'Description', 'OK / over / errors', 'p50 ms', 'p99 ms', 'p99.9 ms', 'max ms'],
    ...['p99 ms, breaker open', 'Load late p99 / p99.9 ms', 'Recovered after ms', 'Goals'],
  ]
  const rows = reports.map(({ name, title, result }) => {
    if (result.kind === 'skipped') return [name, title, ...Array.from({ length: 8 }, () => none), 'skipped']
    const { answers, recoveriesMs } = result.report
    const figures =
      answers === undefined
        ? [none, none, none, none, none, none, none]
        : [
            `${answers.ok} / ${answers.over} / ${answers.errors}`,
            ...[answers.p50Ms, answers.p99Ms, answers.p999Ms, answers.maxMs].map(formatNumber),
            answers.openP99Ms === undefined ? none : formatNumber(answers.openP99Ms),
            describeLateness(answers.loadLate),
          ]
    return [name, title, ...figures, describeAll(recoveriesMs), verdict(result.report)]
  })
  return { heading, rows }
}

/** The counts, the memory, and the violations. */
export function countTable(reports: readonly TitledReport[]): Table {
  const heading = ['Fault', 'Limit', 'Admitted', 'Over', 'Counted, not answered', 'Memory MiB', 'GOAWAY']
  const rows = reports.map(({ name, result }) => {
    if (result.kind === 'skipped') return [name, ...heading.slice(1).map(() => none), none, result.reason]
    const { counts, rssGrowthMiB, goAways, violations, notes } = result.report
    const figures =
      counts === undefined
        ? [none, none, none, none]
        : [counts.limit, counts.admitted, Math.max(0, counts.admitted - counts.limit), counts.unanswered].map(
            String,
          )
    const memory = rssGrowthMiB === undefined ? none : formatNumber(Math.max(0, rssGrowthMiB))
    return [
      name,
      ...figures,
      memory,
      goAways === undefined ? none : `${goAways}`,
      violations.length === 0 ? 'met' : `VIOLATED: ${violations.join('; ')}`,
      notes.join('; '),
    ]
  })
  return { heading: [...heading, 'Guarantees', 'Notes'], rows }
}

/** The three most frequent errors of each case. */
export function messageTable(reports: readonly TitledReport[]): Table {
  const rows = reports.flatMap(({ name, result }) => {
    const messages = result.kind === 'run' ? (result.report.answers?.messages ?? []) : []
    return messages.slice(0, 3).map(([message, count]) => [name, message, `${count}`])
  })
  return { heading: ['Fault', 'Status and message', 'Calls'], rows }
}

function describeLateness(lateness: LatencyFigures | undefined): string {
  return lateness === undefined ? none : `${formatNumber(lateness.p99Ms)} / ${formatNumber(lateness.p999Ms)}`
}

/** Formats the median, and the maximum of several values. */
function describeAll(timesMs: readonly number[] = []): string {
  if (timesMs.length === 0) return none
  const sorted = timesMs.toSorted((a, b) => a - b)
  const middle = formatNumber(sorted[Math.floor((sorted.length - 1) / 2)] ?? 0)
  return sorted.length === 1 ? middle : `${middle}, at most ${formatNumber(sorted.at(-1) ?? 0)}`
}

/** Returns `met`, or the missed goals; of repeated goals only the worst figure. */
export function verdict({ goals }: Pick<FaultReport, 'goals'>): string {
  if (goals.length === 0) return none
  const worst = new Map<string, GoalLine>()
  for (const line of goals) {
    const known = worst.get(line.what)
    if (known === undefined || line.figure > known.figure) worst.set(line.what, line)
  }
  const missed = [...worst.values()].filter(({ goal, figure }) => judge(goal, figure) !== 'met')
  if (missed.length === 0) return 'met'
  const each = missed.map(
    ({ what, unit, goal, figure }) => `${what} ${formatNumber(figure)} (${describeGoal(goal, unit)})`,
  )
  return `missed: ${each.join(', ')}`
}
