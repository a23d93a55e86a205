import type { Replica } from '../infrastructure/provider.ts'
import type { SourceProblem } from '../sources/source.ts'
import type { Condition } from './conditions.ts'
import type { ResourceStatus } from './resource-status.ts'

/**
 * Everything that `tollway status` shows; kept in a file beside the state, and served by the operator as
 * JSON.
 */
export interface StatusReport {
  /** The operator's process. */
  readonly pid: number
  readonly updatedAt: string
  /** The folder of manifests. */
  readonly folder: string
  /** Identifies the release of the chart whose operator reports. Only in a cluster. */
  readonly revision?: string
  /** `grpc` -> `127.0.0.1:8081`. */
  readonly addresses: Readonly<Record<string, string>>
  readonly resources: readonly ResourceStatus[]
  readonly replicas: readonly Replica[]
  /** What could not be read, or is no resource that the operator knows. */
  readonly problems: readonly SourceProblem[]
}

/**
 * Whether everything that was asked for is so: each resource, each process, each file.
 *
 * @param exceptStalled passes over resources that wait for their writers.
 */
export function isReady({ resources, replicas, problems }: StatusReport, exceptStalled = false): boolean {
  const isStalled = (resource: ResourceStatus) => conditionOf(resource, 'Stalled').status === 'True'
  const counted = exceptStalled ? resources.filter(resource => !isStalled(resource)) : resources
  const ready = counted.every(resource => conditionOf(resource, 'Ready').status === 'True')
  return (
    ready &&
    problems.every(({ isWarning }) => isWarning === true) &&
    replicas.length > 0 &&
    replicas.every(replica => replica.ready)
  )
}

export function conditionOf(
  { conditions }: Pick<ResourceStatus, 'conditions'>,
  type: string,
): Pick<Condition, 'status' | 'reason' | 'message'> {
  return conditions.find(one => one.type === type) ?? { status: 'Unknown', reason: '', message: '' }
}
