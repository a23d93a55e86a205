import { renderTable } from '../../operator/cli/render.ts'
import type { CaseResult, GoalRow } from './bench-case.ts'
import { formatNumber } from './format-number.ts'
import { bestOf, describeGoal, judge, type Verdict } from './goals.ts'
import type { Measurement } from './measure.ts'
import { median, spreadOf } from './percentiles.ts'

export interface Table {
  readonly heading: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

/** The report of a case, which is shown and stored in its file of results. */
export interface Report extends CaseResult {
  readonly machine: string
  readonly title: string
}

/** One row for each goal, with a verdict. */
export function goalTable(reports: readonly Report[]): Table {
  const heading = ['Case', 'Figure', 'Goal', 'Measured', 'Spread', 'Ours / other', 'Verdict']
  return { heading, rows: reports.flatMap(({ title, rows }) => rows.map(row => goalLine(title, row))) }
}

function goalLine(title: string, row: GoalRow): readonly string[] {
  const { what, unit, figures, goal, compared } = row
  const { median: middle, min, max } = spreadOf(figures)
  return [
    title,
    what,
    goal === undefined ? '' : describeGoal(goal, unit),
    `${formatNumber(middle)} ${unit}`.trim(),
    `${formatNumber(min)} to ${formatNumber(max)}`,
    compared,
    verdictOf(row),
  ]
}

/** Empty without a goal. A missed goal with an excuse is not judged. */
export function verdictOf(row: GoalRow): string {
  const verdict = judgeRow(row)
  if (verdict === undefined) return ''
  if (verdict !== 'met' && row.excuse !== undefined) return `not judged: ${row.excuse}`
  return row.judgedBy === 'best' ? `${verdict} by the best round` : verdict
}

/** Returns whether the short form fails on the row. */
export function isBelowHalf(row: GoalRow): boolean {
  return judgeRow(row) === 'below half' && row.excuse === undefined
}

function judgeRow({ goal, figures, judgedBy }: GoalRow): Verdict | undefined {
  if (goal === undefined) return undefined
  return judge(goal, judgedBy === 'best' ? bestOf(goal, figures) : median(figures))
}

const columns: readonly [string, keyof Measurement, number][] = [
  ['CPU µs', 'cpuMicros', 1],
  ['Decisions/s', 'decisionsPerSecond', 1],
  ['Deliveries/s', 'deliveriesPerSecond', 1],
  ['Requests/s', 'requestsPerSecond', 1],
  ['p50 ms', 'p50Ms', 1],
  ['p99 ms', 'p99Ms', 1],
  ['p99.9 ms', 'p999Ms', 1],
  ['RSS MiB', 'rssMiB', 1],
  ['GC %', 'gcShare', 100],
  ['Redis commands', 'redisCommands', 1],
  ['Core %', 'serverBusy', 100],
  ['Other core %', 'otherCoreBusy', 100],
]

/** The medians of all figures of each server. */
export function figureTable(reports: readonly Report[]): Table {
  const rows = reports.flatMap(({ title, measurements }) =>
    Object.entries(measurements).map(([name, rounds]) => [
      title,
      name,
      ...columns.map(([, figure, factor]) => {
        const values = rounds.map(round => round[figure]).filter(value => value !== undefined)
        return values.length === 0 ? '' : formatNumber(median(values) * factor)
      }),
    ]),
  )
  return { heading: ['Case', 'Server', ...columns.map(([name]) => name)], rows }
}

/** Formats a table for a terminal, or as Markdown. */
export function renderReport({ heading, rows }: Table, markdown: boolean): string {
  if (!markdown)
    return renderTable(
      heading.map(name => name.toUpperCase()),
      rows,
    )
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |\n`
  return [line(heading), line(heading.map(() => '---')), ...rows.map(line)].join('')
}
