import { setTimeout as pause } from 'node:timers/promises'
import { type Command, exitCodes, UsageError } from '@tollway/chassis/command-line/command.ts'
import {
  optionalText,
  seconds,
  textOr,
  toggle,
  withoutDefault,
} from '@tollway/chassis/command-line/option.ts'
import { parseWithSource } from '@tollway/chassis/command-line/parse-options.ts'
import { describeConnectionError } from '@tollway/chassis/net/describe-connection-error.ts'
import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import { mayRun, readStatusReport } from '../../environments/host/status-file.ts'
import { listProblems } from '../../environments/host/terminal/problem-log.ts'
import type { KindColumns } from '../../kinds/kind-adapter.ts'
import { rateLimitConfigColumns } from '../../kinds/rate-limit-config/rate-limit-config.ts'
import { columnsOfKinds } from '../../kinds/registry.ts'
import type { SourceProblem } from '../../kinds/source.ts'
import type { ResourceStatus } from '../../status/resource-status.ts'
import { findCondition, isReady, type StatusReport } from '../../status/status-report.ts'
import { render, renderTable } from '../render.ts'
import { createSource, type SourceOf } from '../run-program.ts'
import { outputOption, stateDirOption } from '../shared-options.ts'

const pollMs = 50
const requestMs = 1_000

interface Unavailable {
  readonly problem: string
}

/** Resolves with an `Unavailable` if no operator answers. */
export type ReadReport = () => Promise<StatusReport | Unavailable>

const seeOperators = 'see: kubectl describe pod -l app.kubernetes.io/name=tollway-operator'

const operatorSource = createSource(
  {
    'state-dir': stateDirOption,
    operator: optionalText({ placeholder: 'URL', help: 'the URL of an operator in a cluster' }),
  },
  async ({ operator, 'state-dir': stateDir }): Promise<ReadReport> => {
    if (operator !== undefined) return () => fetchReport(operator)
    const problem = `no operator runs with the state in ${stateDir}; start one with: tollway run -f FOLDER`
    return async () => (await readCurrentReport(stateDir)) ?? { problem }
  },
)

const own = {
  wait: seconds(0, { help: 'the maximum time to wait until everything is ready' }),
  revision: textOr('', {
    placeholder: 'ID',
    help:
      'accept only reports of operators of this release of the chart, because operators of the previous ' +
      'release can still answer after an upgrade',
  }),
  grace: withoutDefault(
    seconds(0, {
      help:
        'end the wait when a problem has lasted for this time that only a person can solve, such as a missing ' +
        'Secret',
    }),
  ),
  'problems-only': toggle({ help: 'print only the problems, and nothing when everything is ready' }),
  'except-stalled': toggle({
    help: 'ignore invalid resources, which become ready only when they are changed',
  }),
  output: outputOption(),
}

export const createStatus = (source: SourceOf<ReadReport>): Command => ({
  name: 'status',
  summary: 'show the conditions of each resource, and the processes',
  options: { ...source.options, ...own },
  help: {
    usage: [
      '[--state-dir DIR | --operator URL] [--wait SECONDS] [--revision ID] [--except-stalled] [-o FORMAT]',
    ],
    description: `\
Shows each resource with its conditions and its domain or prefix, and the processes that enforce it. With
--operator it shows only the number of resources; kubectl tollway status shows their names.
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
    const readReport = await source.open(sourceValues, output)
    const isCurrent = (found: StatusReport) => ['', found.revision].includes(values.revision)
    const ready = (found: StatusReport) => isCurrent(found) && isReady(found, values['except-stalled'])
    const filterPersistent = createPersistenceFilter(values.grace)
    // Operators of the previous release report the rollout of the new ones, but none of their other problems.
    const listProblems = (found: StatusReport) =>
      isCurrent(found) ? found.problems : found.problems.filter(({ origin }) => origin === 'operator')
    const { report, obstacles } = await waitUntilReady(
      readReport,
      ready,
      (found, nowMs) => filterPersistent(listProblems(found), nowMs),
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
  readonly report: StatusReport | Unavailable
  /** Why the wait ended early; empty if it did not. */
  readonly obstacles: readonly SourceProblem[]
}

async function waitUntilReady(
  readReport: ReadReport,
  ready: (report: StatusReport) => boolean,
  findObstacles: (report: StatusReport, nowMs: number) => readonly SourceProblem[],
  waitMs: number,
): Promise<Waited> {
  const endMs = performance.now() + waitMs
  for (;;) {
    const report = await readReport()
    const isUnavailable = 'problem' in report
    if (!isUnavailable && ready(report)) return { report, obstacles: [] }
    const obstacles = isUnavailable ? [] : findObstacles(report, performance.now())
    if (obstacles.length > 0 || performance.now() >= endMs) return { report, obstacles }
    await pause(pollMs)
  }
}

async function fetchReport(operator: string): Promise<StatusReport | Unavailable> {
  if (!URL.canParse('/status', operator))
    throw new UsageError(`--operator ${operator}: must be a URL, such as http://localhost:8000`)
  try {
    const answer = await fetch(new URL('/status', operator), { signal: AbortSignal.timeout(requestMs) })
    const report = (await answer.json().catch(() => ({}))) as Partial<StatusReport>
    if (Array.isArray(report.resources) && Array.isArray(report.replicas)) return report as StatusReport
    return { problem: `${operator}: not an operator: /status answered ${answer.status} without a report` }
  } catch (error) {
    return { problem: `${operator}: ${describeConnectionError(error)}; ${seeOperators}` }
  }
}

/**
 * Resolves with the report of the operator on this machine, or with its report file if it does not answer in
 * time: while the disk is full, the file is out of date. Resolves with undefined if no operator runs, even if
 * another process now has the port or the process id of the last one.
 */
export async function readCurrentReport(stateDir: string): Promise<StatusReport | undefined> {
  const written = readStatusReport(stateDir)
  if (written === undefined || !mayRun(written)) return undefined
  try {
    const signal = AbortSignal.timeout(requestMs)
    const answer = await fetch(`${written.addresses['operator']}/status`, { signal })
    const report = (await answer.json()) as StatusReport
    return report.pid === written.pid ? report : undefined
  } catch (error) {
    return (error as Error).name === 'TimeoutError' ? written : undefined
  }
}

/** The conditions of published resources. `Enforced` is shown as the number of processes instead. */
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

/** The page of an operator in a cluster has only the number of resources for each status. */
function groupTable(resources: StatusReport['resources']): string {
  const rows = resources.map(resource => {
    const { status, reason } = findCondition(resource, 'Ready')
    return [resource.kind, `${resource.resources}`, status, reason]
  })
  return renderTable(['KIND', 'RESOURCES', 'READY', 'REASON'], rows)
}

/** Returns a table for each kind with resources. */
function resourceTables(resources: StatusReport['resources']): readonly string[] {
  if (resources.some(({ resources }) => resources !== undefined)) return [groupTable(resources)]
  const byKind = Map.groupBy(resources, ({ kind }) => kind)
  const ofKinds = Object.entries(columnsOfKinds).flatMap(([kind, columns]) => {
    const ofKind = byKind.get(kind) ?? []
    return ofKind.length > 0 ? [resourceTable(columns, ofKind)] : []
  })
  return ofKinds.length > 0 ? ofKinds : [resourceTable(rateLimitConfigColumns, [])]
}

const maxProblems = 10

/** Describes the obstacles or, if there are none, the first problems. */
function describeProblems(report: StatusReport, obstacles: readonly SourceProblem[]): string {
  const onlyObstacles = obstacles.length > 0 && { resources: [], replicas: [], problems: obstacles }
  const complaints = listProblems({ ...report, ...onlyObstacles })
  const shown = complaints
    .slice(0, maxProblems)
    .map(({ place, message }) => escapeControls(`${place}: ${message}`))
  const more = complaints.length - shown.length
  if (more > 0) shown.push(`${more} more; tollway status shows all`)
  if (shown.length === 0) shown.push('processes are starting')
  // helm prints the log of a hook in double quotes.
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
  const shared = report.resources.flatMap(describeSharing)
  if (shared.length > 0) parts.push(`Shares of limits:\n${shared.map(line => `  ${line}\n`).join('')}`)
  const wrong = listProblems(report).map(
    ({ place, message }) => `  ${escapeControls(`${place}: ${message}`)}\n`,
  )
  if (report.resources.length === 0) parts.push('No resource is in force: no call is limited.\n')
  if (wrong.length > 0) parts.push(`Problems:\n${wrong.join('')}`)
  return parts.join('\n')
}

/** Returns a line for each fact about limits that proxies or processes share. */
function describeSharing({ namespace, name, sharing }: ResourceStatus): readonly string[] {
  if (sharing === undefined || sharing === 'unknown') return []
  const { quota, leases } = sharing
  const { members, rules = [], converged, lastConvergence = 'never', missingPods = [] } = quota ?? {}
  const facts = [
    ...(members === undefined ? [] : [`${members} ${members === 1 ? 'proxy' : 'proxies'}`]),
    ...(converged === undefined
      ? []
      : [converged ? `converged since ${lastConvergence}` : `not converged, last at ${lastConvergence}`]),
    ...(missingPods.length > 0 ? [`not counted, because they do not report: ${missingPods.join(', ')}`] : []),
  ]
  const lines = [
    ...(facts.length > 0 ? [facts.join('; ')] : []),
    ...rules.map(
      ({ rule, buckets, assignedPercent, atOnceAtMost }) =>
        `${rule}: ${buckets} ${buckets === 1 ? 'bucket' : 'buckets'}, ${assignedPercent} % assigned, ` +
        `at most ${atOnceAtMost} at once beyond the rate`,
    ),
    ...(leases
      ? [`leases: at most ${leases.perProcess} of a counter in each process, ${leases.total} in all`]
      : []),
  ]
  return lines.map(line => escapeControls(`${namespace}/${name}: ${line}`))
}

/**
 * An obstacle that returns within this time counts as continuous: a container that was just restarted has no
 * problem at first.
 */
const maxGapMs = 5_000

/** How long one origin, such as a pod, has had an obstacle, and what has been tried. */
interface ObstacleHistory {
  readonly sinceMs: number
  readonly lastMs: number
  /** Whether another attempt has begun, and whether that has failed too. */
  readonly hasWaited: boolean
  readonly hasFailedAgain: boolean
}

/**
 * Creates a filter that returns the problems whose obstacle has lasted for `graceMs` in consecutive reports:
 * a Secret can be created after the pods, and a registry can answer the second attempt.
 *
 * @param graceMs undefined to return no problems
 */
export function createPersistenceFilter(
  graceMs: number | undefined,
): (problems: readonly SourceProblem[], nowMs: number) => readonly SourceProblem[] {
  const known = new Map<string, ObstacleHistory>()
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
