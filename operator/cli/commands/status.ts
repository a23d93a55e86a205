import { setTimeout as pause } from 'node:timers/promises'
import { type Command, exitCodes, UsageError } from '@tollway/chassis/command-line/command.ts'
import {
  type OptionValues,
  optional,
  seconds,
  text,
  textOr,
  toggle,
} from '@tollway/chassis/command-line/option.ts'
import { parseWithSource } from '@tollway/chassis/command-line/parse-options.ts'
import { describeConnectionError } from '@tollway/chassis/net/describe-connection-error.ts'
import { mayRun, readStatusReport } from '../../environments/host/status-file.ts'
import { listProblems } from '../../environments/host/terminal/problem-log.ts'
import type { KindColumns } from '../../kinds/kind-adapter.ts'
import { rateLimitConfigColumns } from '../../kinds/rate-limit-config/rate-limit-config.ts'
import { columnsOfKinds } from '../../kinds/registry.ts'
import type { SourceProblem } from '../../kinds/source.ts'
import { findCondition, isReady, type StatusReport } from '../../status/status-report.ts'
import { printable, render, renderTable } from '../render.ts'
import type { SourceOf } from '../run-program.ts'
import { outputOption, stateDirOption } from '../shared-options.ts'

const pollMs = 50
const requestMs = 1_000

interface Absent {
  readonly problem: string
}

/** The source of an operator's report. */
export interface ReportSource {
  /** Resolves with the problem if no operator answers. */
  look(): Promise<StatusReport | Absent>
}

const seeOperators = 'see: kubectl describe pod -l app.kubernetes.io/name=tollway-operator'

const operatorOptions = {
  'state-dir': stateDirOption,
  operator: text({ placeholder: 'URL', help: 'the URL of an operator in a cluster' }),
}

const operatorSource: SourceOf<ReportSource> = {
  options: operatorOptions,
  async open(values) {
    const { operator, 'state-dir': stateDir } = values as OptionValues<typeof operatorOptions>
    if (operator !== undefined) return { look: () => fetchReport(operator) }
    const problem = `no operator runs with the state in ${stateDir}; start one with: tollway run -f FOLDER`
    return { look: async () => (await readCurrentReport(stateDir)) ?? { problem } }
  },
}

const own = {
  wait: seconds(0, { help: 'wait for at most this time until everything is ready' }),
  revision: textOr('', {
    placeholder: 'ID',
    help:
      'accept only reports of operators of this release of the chart; the operators of the previous release ' +
      'can still answer after an upgrade',
  }),
  grace: optional(
    seconds(0, {
      help:
        'end the wait when a problem that only a change by a person removes has lasted this long, such as a ' +
        'missing Secret',
    }),
  ),
  'problems-only': toggle({ help: 'print only the problems, and nothing when everything is ready' }),
  'except-stalled': toggle({ help: 'ignore invalid resources, which become ready only after a change' }),
  output: outputOption(),
}

/** Returns the command for the report of an operator. */
export const createStatus = (source: SourceOf<ReportSource>): Command => ({
  name: 'status',
  summary: 'show the conditions of each resource, and the processes',
  options: { ...source.options, ...own },
  help: {
    usage: [
      '[--state-dir DIR | --operator URL] [--wait SECONDS] [--revision ID] [--except-stalled] [-o FORMAT]',
    ],
    description: `\
Shows each resource with its conditions, its domain or prefix, and the processes that enforce it.
With --operator it shows the numbers of resources; kubectl tollway status shows their names.
  ACCEPTED    the resource is valid
  PROGRAMMED  the feed carries the resource, and no process rejected it
  ENFORCED    the processes that enforce the resource, and the processes that run
  READY       the three others are true
For a Merchant:
  SYNCED      the merchant of the payments service matches the resource
  CREDENTIALS the Secret has the API key and the ids`,
    exitCodes: '0 when every resource is ready, 1 when one is not, 2 when no operator runs.',
    examples: [
      'tollway status',
      'tollway status --wait 10 -o json',
      'kubectl -n tollway exec deploy/tollway-operator -- tollway status --operator http://localhost:8000',
    ],
  },
  async run(args, output) {
    const { values, sourceValues } = parseWithSource(args, own, source.options)
    const { output: format, wait: waitMs } = values
    const { look } = await source.open(sourceValues, output)
    const isCurrent = (found: StatusReport) => ['', found.revision].includes(values.revision)
    const ready = (found: StatusReport) => isCurrent(found) && isReady(found, values['except-stalled'])
    const lasting = createPersistenceFilter(values.grace)
    // The operators of the previous release report the rollout of the new ones, but not what those changed.
    const problemsOf = (found: StatusReport) =>
      isCurrent(found) ? found.problems : found.problems.filter(({ origin }) => origin === 'operator')
    const { report, obstacles } = await waitUntilReady(
      look,
      ready,
      (found, nowMs) => lasting(problemsOf(found), nowMs),
      waitMs,
    )
    if ('problem' in report) throw new Error(report.problem)
    if (values['problems-only']) {
      if (!ready(report)) output.print(describeProblems(report, obstacles))
    } else output.print(format === 'table' ? describe(report) : render(report, format))
    if (!isCurrent(report) && obstacles.length === 0) {
      output.printError(
        `no operator of revision ${values.revision} answers, only one of revision ${report.revision ?? '(none)'}: ` +
          `the new operators have not started; ${seeOperators}\n`,
      )
    }
    return ready(report) ? exitCodes.ok : exitCodes.wrong
  },
})

export const statusCommand = createStatus(operatorSource)

interface Waited {
  readonly report: StatusReport | Absent
  /** The problems for which the wait ended early. */
  readonly obstacles: readonly SourceProblem[]
}

async function waitUntilReady(
  look: () => Promise<StatusReport | Absent>,
  ready: (report: StatusReport) => boolean,
  obstaclesOf: (report: StatusReport, nowMs: number) => readonly SourceProblem[],
  waitMs: number,
): Promise<Waited> {
  const endMs = performance.now() + waitMs
  for (;;) {
    const report = await look()
    const isAbsent = 'problem' in report
    if (!isAbsent && ready(report)) return { report, obstacles: [] }
    const obstacles = isAbsent ? [] : obstaclesOf(report, performance.now())
    if (obstacles.length > 0 || performance.now() >= endMs) return { report, obstacles }
    await pause(pollMs)
  }
}

async function fetchReport(operator: string): Promise<StatusReport | Absent> {
  if (!URL.canParse('/status', operator)) throw new UsageError(`--operator ${operator}: is not a URL`)
  try {
    const answer = await fetch(new URL('/status', operator), { signal: AbortSignal.timeout(requestMs) })
    const told = (await answer.json().catch(() => ({}))) as Partial<StatusReport>
    if (Array.isArray(told.resources) && Array.isArray(told.replicas)) return told as StatusReport
    return { problem: `${operator}: is not an operator: /status answered ${answer.status} without a report` }
  } catch (error) {
    return { problem: `${operator}: ${describeConnectionError(error)}; ${seeOperators}` }
  }
}

/**
 * Returns the operator's own report, because the file may be out of date while the disk is full; the file if
 * the operator does not answer in time. Returns undefined if no operator runs, even if another process has
 * its port or its process id.
 */
export async function readCurrentReport(stateDir: string): Promise<StatusReport | undefined> {
  const written = readStatusReport(stateDir)
  if (written === undefined || !mayRun(written)) return undefined
  try {
    const signal = AbortSignal.timeout(requestMs)
    const answer = await fetch(`${written.addresses['operator']}/status`, { signal })
    const told = (await answer.json()) as StatusReport
    return told.pid === written.pid ? told : undefined
  } catch (error) {
    return (error as Error).name === 'TimeoutError' ? written : undefined
  }
}

/** The conditions of kinds of the feed. The number of enforcing processes replaces the third one. */
const publishedSteps = [
  { field: 'Accepted', heading: 'ACCEPTED' },
  { field: 'Programmed', heading: 'PROGRAMMED' },
]

function resourceTable(columns: KindColumns, resources: StatusReport['resources']): string {
  const { subject, counts, details = [], steps = publishedSteps } = columns
  const isPublished = columns.steps === undefined
  const headings = [...counts, ...details, ...steps].map(({ heading }) => heading)
  const heading = ['KIND', 'NAME', subject, ...headings, ...(isPublished ? ['ENFORCED'] : []), 'READY']
  const rows = resources.map(resource => [
    resource.kind,
    `${resource.namespace}/${resource.name}`,
    resource.subject,
    ...counts.map(({ field }) => `${resource.counts[field] ?? ''}`),
    ...details.map(({ field }) => resource.details?.[field] ?? ''),
    ...steps.map(({ field }) => findCondition(resource, field).status),
    ...(isPublished ? [resource.enforced] : []),
    findCondition(resource, 'Ready').status,
  ])
  return renderTable(heading, rows)
}

/** The resources of a report without names. */
function groupTable(resources: StatusReport['resources']): string {
  const rows = resources.map(resource => {
    const { status, reason } = findCondition(resource, 'Ready')
    return [resource.kind, `${resource.resources}`, status, reason]
  })
  return renderTable(['KIND', 'RESOURCES', 'READY', 'REASON'], rows)
}

/** One for each kind that there is something of; the kinds differ in what they count. */
function resourceTables(resources: StatusReport['resources']): readonly string[] {
  if (resources.some(({ resources }) => resources !== undefined)) return [groupTable(resources)]
  const byKind = Map.groupBy(resources, ({ kind }) => kind)
  const ofKinds = Object.entries(columnsOfKinds).flatMap(([kind, columns]) => {
    const ofKind = byKind.get(kind) ?? []
    return ofKind.length > 0 ? [resourceTable(columns, ofKind)] : []
  })
  return ofKinds.length > 0 ? ofKinds : [resourceTable(rateLimitConfigColumns, [])]
}

/** The most problems that are printed alone. */
const maxProblems = 10

/** Returns a line for each of the obstacles, or else for each of the first problems. */
function describeProblems(report: StatusReport, obstacles: readonly SourceProblem[]): string {
  const alone = obstacles.length > 0 && { resources: [], replicas: [], problems: obstacles }
  const complaints = listProblems({ ...report, ...alone })
  const shown = complaints
    .slice(0, maxProblems)
    .map(({ place, message }) => printable(`${place}: ${message}`))
  const more = complaints.length - shown.length
  if (more > 0) shown.push(`${more} more; tollway status shows all`)
  if (shown.length === 0) shown.push('processes are starting')
  // helm prints the log of a hook as one quoted text.
  return `${shown.join('\n').replaceAll('"', "'")}\n`
}

function describe(report: StatusReport): string {
  const replicas = report.replicas.map(({ name, ready, reason, restarts, addresses, backendProblem }) => [
    name,
    ready ? (backendProblem === undefined ? 'ready' : 'ready, its backend fails') : reason,
    `${restarts}`,
    addresses['debug'] ?? '',
  ])
  const parts = [
    ...resourceTables(report.resources),
    renderTable(['PROCESS', 'STATE', 'RESTARTS', 'DEBUG'], replicas),
  ]
  const wrong = listProblems(report).map(({ place, message }) => `  ${printable(`${place}: ${message}`)}\n`)
  if (report.resources.length === 0) parts.push('No resource is in force: no call is limited.\n')
  if (wrong.length > 0) parts.push(`Problems:\n${wrong.join('')}`)
  return parts.join('\n')
}

/** A container that is started again has no problem for a moment, which does not restart the grace. */
const maxGapMs = 5_000

/** What has been seen of the obstacle of one origin. */
interface Seen {
  readonly sinceMs: number
  readonly lastMs: number
  /** Whether a further attempt was waited for, and whether it has failed as well. */
  readonly hasWaited: boolean
  readonly hasFailedAgain: boolean
}

/**
 * Returns a function that is called with the problems of one report after the other, and returns those whose
 * obstacle has lasted for the grace: a Secret may be created some seconds after the pods, and a registry may
 * answer the second attempt.
 *
 * @param graceMs without it, no obstacle lasts
 */
export function createPersistenceFilter(
  graceMs: number | undefined,
): (problems: readonly SourceProblem[], nowMs: number) => readonly SourceProblem[] {
  const known = new Map<string, Seen>()
  return (problems, nowMs) =>
    problems.filter(({ origin, obstacle }) => {
      if (obstacle === undefined || graceMs === undefined) return false
      const { attempt } = obstacle
      const last = known.get(origin)
      const before = last !== undefined && nowMs - last.lastMs < maxGapMs ? last : undefined
      const seen = {
        sinceMs: before?.sinceMs ?? nowMs,
        lastMs: nowMs,
        hasWaited: before?.hasWaited === true || attempt === 'waiting',
        hasFailedAgain:
          before?.hasFailedAgain === true || (before?.hasWaited === true && attempt === 'failed'),
      }
      known.set(origin, seen)
      return nowMs - seen.sinceMs >= graceMs && (attempt === undefined || seen.hasFailedAgain)
    })
}
