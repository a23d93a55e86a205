import { failingReplicas } from '../../../infrastructure/backend-failures.ts'
import { formatFieldProblem } from '../../../kinds/kind-adapter.ts'
import { isTransient } from '../../../status/resource-status.ts'
import { findCondition, type StatusReport } from '../../../status/status-report.ts'

/** A difference from the desired state. */
interface ReportedProblem {
  /** The subject: `checkout.yaml: RateLimitConfig shop/checkout`, or the file alone. */
  readonly place: string
  readonly message: string
  /** Whether the problem may be transient, because processes are starting. */
  readonly passing: boolean
}

/**
 * Returns the problems of a report: each file that cannot be read; the problems of each resource, field by
 * field, or else the condition that makes it not ready; and each process whose backend fails.
 */
export function listProblems({ resources, replicas, problems }: StatusReport): readonly ReportedProblem[] {
  const ofFiles = problems.map(({ origin, message }) => ({ place: origin, message, passing: false }))
  const ofResources = resources.flatMap((resource): ReportedProblem[] => {
    const ready = findCondition(resource, 'Ready')
    if (ready.status === 'True') return []
    const { kind, resources } = resource
    const place = resources === undefined ? `${resource.origin}: ${kind} ${nameOf(resource)}` : kind
    const messages = resource.problems.map(formatFieldProblem)
    if (resources !== undefined) messages.push(`${resources} not ready: ${ready.reason}`)
    else if (messages.length === 0) messages.push(`${ready.reason}: ${ready.message}`)
    else if (findCondition(resource, 'Programmed').reason === 'LastGoodInForce') {
      messages.push('the last good version stays in force')
    }
    const passing = isTransient(ready) || findCondition(resource, 'Reconciling').status === 'True'
    return messages.map(message => ({ place, message, passing }))
  })
  const ofReplicas = failingReplicas(replicas).map(({ name, backendProblem }) => ({
    ...{ place: name, message: `its backend fails: ${backendProblem}`, passing: false },
  }))
  return [...ofFiles, ...ofResources, ...ofReplicas]
}

const nameOf = ({ namespace, name }: StatusReport['resources'][number]) => `${namespace}/${name}`

/** The maximum of printed problems of one change. `tollway status` shows all of them. */
const maxLogged = 10

/** Logs new and resolved problems since the last report. */
export function createProblemLog(log: {
  warn(text: string): void
  info(text: string): void
}): (report: StatusReport) => void {
  let known: ReadonlySet<string> = new Set()
  return report => {
    const lasting = listProblems(report).filter(({ passing }) => !passing)
    const now = new Set(lasting.map(({ place, message }) => `${place}: ${message}`))
    const fresh = [...now].filter(text => !known.has(text))
    for (const text of fresh.slice(0, maxLogged)) log.warn(text)
    if (fresh.length > maxLogged) log.warn(`${fresh.length - maxLogged} more; tollway status shows all`)
    const gone = [...known].filter(text => !now.has(text))
    for (const text of gone.slice(0, maxLogged)) log.info(`no longer so: ${text}`)
    known = now
  }
}
