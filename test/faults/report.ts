import { formatNumber } from '../bench/format-number.ts'
import { describeGoal, judge } from '../bench/goals.ts'
import type { Table } from '../bench/report.ts'
import type { FaultReport, GoalLine } from './fault-case.ts'

/** A case, and what came of it; why it was left out when it was. */
export interface TitledReport {
  readonly name: string
  readonly title: string
  readonly report: FaultReport | { readonly leftOut: string }
}

const none = '–'

/** How fast what was answered while each fault held, how soon all was well, and whether that is the goal. */
export function answerTable(reports: readonly TitledReport[]): Table {
  const heading = [
    ...['Fault', 'What goes wrong', 'OK / over / errors', 'p50 ms', 'p99 ms', 'p99.9 ms', 'max ms'],
    ...['p99 ms, breaker open', 'Well again after ms', 'Goals'],
  ]
  const rows = reports.map(({ name, title, report }) => {
    if ('leftOut' in report) return [name, title, ...Array.from({ length: 7 }, () => none), 'not run']
    const { answers, recoveriesMs } = report
    const figures =
      answers === undefined
        ? [none, none, none, none, none, none]
        : [
            `${answers.ok} / ${answers.over} / ${answers.errors}`,
            ...[answers.p50Ms, answers.p99Ms, answers.p999Ms, answers.maxMs].map(formatNumber),
            answers.openP99Ms === undefined ? none : formatNumber(answers.openP99Ms),
          ]
    return [name, title, ...figures, describeAll(recoveriesMs), verdict(report)]
  })
  return { heading, rows }
}

/** What was counted, what memory was taken, and whether something came that must never come. */
export function countTable(reports: readonly TitledReport[]): Table {
  const heading = ['Fault', 'Limit', 'Admitted', 'Over', 'Counted, not answered', 'Memory MiB', 'GOAWAY']
  const rows = reports.map(({ name, report }) => {
    if ('leftOut' in report) return [name, ...heading.slice(1).map(() => none), none, report.leftOut]
    const { counts, rssGrowthMiB, goAways, violations, notes } = report
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
      violations.length === 0 ? 'holds' : `BROKEN: ${violations.join('; ')}`,
      notes.join('; '),
    ]
  })
  return { heading: [...heading, 'What must hold', 'Notes'], rows }
}

/** The three most frequent errors of each case. */
export function messageTable(reports: readonly TitledReport[]): Table {
  const rows = reports.flatMap(({ name, report }) => {
    const messages = 'leftOut' in report ? [] : (report.answers?.messages ?? [])
    return messages.slice(0, 3).map(([message, count]) => [name, message, `${count}`])
  })
  return { heading: ['Fault', 'Status and message', 'Calls'], rows }
}

/** The middle one, and the longest where there are several. */
function describeAll(timesMs: readonly number[] = []): string {
  if (timesMs.length === 0) return none
  const sorted = timesMs.toSorted((a, b) => a - b)
  const middle = formatNumber(sorted[Math.floor((sorted.length - 1) / 2)] ?? 0)
  return sorted.length === 1 ? middle : `${middle}, at most ${formatNumber(sorted.at(-1) ?? 0)}`
}

/** `met`, or what was missed and by how much; of the same goal only the worst figure. */
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
