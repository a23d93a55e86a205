import type { Log } from '@tollway/chassis/log/log.ts'
import { failingReplicas } from '../../../infrastructure/backend-failures.ts'
import { formatProblem } from '../../../kinds/kind-adapter.ts'
import { qualifiedName } from '../../../kinds/source.ts'
import { isTransient } from '../../../status/resource-status.ts'
import { findCondition, type StatusReport } from '../../../status/status-report.ts'

/** A difference between the desired and the present state. */
interface ReportedProblem {
  /** What is affected: `checkout.yaml: RateLimitConfig shop/checkout`, or a file. */
  readonly place: string
  readonly message: string
  /** Whether the problem may end by itself, because processes are starting. */
  readonly passing: boolean
}

/**
 * Returns the problems of a report: each file that cannot be read; the problems in the fields of each
 * resource, or else the condition that makes it not ready; and each process whose backend fails.
 */
export function listProblems({ resources, replicas, problems }: StatusReport): readonly ReportedProblem[] {
  const ofFiles = problems.map(({ origin, message }) => ({ place: origin, message, passing: false }))
  const ofResources = resources.flatMap((resource): ReportedProblem[] => {
    const ready = findCondition(resource, 'Ready')
    if (ready.status === 'True') return []
    const { kind, resources } = resource
    const place = resources === undefined ? `${resource.origin}: ${kind} ${qualifiedName(resource)}` : kind
    const messages = resource.problems.map(formatProblem)
    if (resources !== undefined) messages.push(`${resources} not ready: ${ready.reason}`)
    else if (messages.length === 0) messages.push(`${ready.reason}: ${ready.message}`)
    else if (findCondition(resource, 'Programmed').reason === 'LastGoodInForce') {
      messages.push('the last good version stays in force')
    }
    const passing = isTransient(ready) || findCondition(resource, 'Reconciling').status === 'True'
    return messages.map(message => ({ place, message, passing }))
  })
  const ofReplicas = failingReplicas(replicas).map(({ name, backendProblem }) => ({
    place: name,
    message: `its backend fails: ${backendProblem}`,
    passing: false,
  }))
  return [...ofFiles, ...ofResources, ...ofReplicas]
}

/** At most this many problems of one report are logged. `tollway status` shows all of them. */
const maxLogged = 10

/** Returns a function that logs which problems are new or resolved since the previous report. */
export function createProblemLog(log: Pick<Log, 'warn' | 'info'>): (report: StatusReport) => void {
  let known: ReadonlyMap<string, ReportedProblem> = new Map()
  return report => {
    const lasting = listProblems(report).filter(({ passing }) => !passing)
    const now = new Map(lasting.map(problem => [`${problem.place}: ${problem.message}`, problem]))
    const fresh = [...now].flatMap(([key, problem]) => (known.has(key) ? [] : [problem]))
    for (const { place, message } of fresh.slice(0, maxLogged)) log.warn('find problem', { place, message })
    const omitted = fresh.length - maxLogged
    if (omitted > 0) log.warn('omit problems', { count: omitted, advice: 'tollway status shows all' })
    const resolved = [...known].flatMap(([key, problem]) => (now.has(key) ? [] : [problem]))
    for (const { place, message } of resolved.slice(0, maxLogged))
      log.info('resolve problem', { place, message })
    known = now
  }
}
