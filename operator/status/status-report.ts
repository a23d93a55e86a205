import type { Replica } from '../infrastructure/provider.ts'
import type { SourceProblem } from '../kinds/source.ts'
import type { StatusCondition } from './conditions.ts'
import type { ResourceStatus } from './resource-status.ts'

/**
 * The content of `tollway status`. The operator stores it in a file beside its state, and serves it as JSON.
 */
export interface StatusReport {
  /** The version of the operator; undefined in a report of an operator that is older than this field. */
  readonly version?: string
  readonly pid: number
  readonly updatedAt: string
  readonly folder: string
  /** The chart release whose operator reports; only in a cluster. */
  readonly revision?: string
  /** The addresses of the services and of the operator, by name: `grpc` -> `127.0.0.1:8081`. */
  readonly addresses: Readonly<Record<string, string>>
  readonly resources: readonly ResourceStatus[]
  readonly replicas: readonly Replica[]
  /** Problems of files, and resources of unknown kinds. */
  readonly problems: readonly SourceProblem[]
}

/**
 * Returns whether all resources, processes and files are as desired. Warnings do not count.
 *
 * @param exceptStalled ignores resources whose authors must change something
 */
export function isReady({ resources, replicas, problems }: StatusReport, exceptStalled = false): boolean {
  const isStalled = (resource: ResourceStatus) => findCondition(resource, 'Stalled').status === 'True'
  const counted = exceptStalled ? resources.filter(resource => !isStalled(resource)) : resources
  const ready = counted.every(resource => findCondition(resource, 'Ready').status === 'True')
  return (
    ready &&
    problems.every(({ isWarning }) => isWarning === true) &&
    replicas.length > 0 &&
    replicas.every(replica => replica.ready)
  )
}

/**
 * Returns the report with resources grouped by kind and conditions, without their names, subjects and
 * messages. The operator's web page shows this report, because every pod of a cluster can read that page.
 */
export function groupResources(report: StatusReport): StatusReport {
  const groups = new Map<string, ResourceStatus>()
  for (const { kind, conditions } of report.resources) {
    const shown = conditions
      .map(({ type, status, reason }) => ({ type, status, reason, message: '', ...noTimes }))
      .toSorted((a, b) => (a.type < b.type ? -1 : 1))
    const key = JSON.stringify([kind, shown])
    const resources = (groups.get(key)?.resources ?? 0) + 1
    groups.set(key, { ...nameless, kind, conditions: shown, resources })
  }
  return { ...report, resources: [...groups.values()] }
}

const noTimes = { observedGeneration: 0, lastTransitionTime: '' }
const nameless = {
  namespace: '',
  name: '',
  uid: '',
  origin: '',
  subject: '',
  enforced: '',
  observedGeneration: 0,
  counts: {},
  problems: [],
}

export function findCondition(
  { conditions }: Pick<ResourceStatus, 'conditions'>,
  type: string,
): Pick<StatusCondition, 'status' | 'reason' | 'message'> {
  return conditions.find(one => one.type === type) ?? { status: 'Unknown', reason: '', message: '' }
}
