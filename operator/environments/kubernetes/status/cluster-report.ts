import { version } from '@tollway/chassis/version.ts'
import type { Replica } from '../../../infrastructure/provider.ts'
import type { SourceProblem } from '../../../kinds/source.ts'
import type { StatusCondition } from '../../../status/conditions.ts'
import type { ResourceStatus } from '../../../status/resource-status.ts'
import type { StatusReport } from '../../../status/status-report.ts'
import type { ReportedKind } from '../controller.ts'
import { readSharing, type StoredResource } from './stored-resource.ts'

interface ClusterReportOptions {
  readonly nowMs: number
  /** Identifies the release of the chart; empty if it is unknown. */
  readonly revision: string
  /** The addresses of the services, by name. */
  readonly addresses: Readonly<Record<string, string>>
  readonly resources: readonly StoredKind[]
  readonly replicas: readonly Replica[]
  readonly problems: readonly SourceProblem[]
}

export interface StoredKind {
  readonly kind: ReportedKind
  readonly resources: readonly StoredResource[]
}

/**
 * Returns the report of `tollway status` in a cluster. It contains the stored statuses, so that every
 * operator reports the same, whether it leads or not.
 */
export function makeClusterReport(options: ClusterReportOptions): StatusReport {
  const { nowMs, revision, addresses, resources, replicas, problems } = options
  return {
    version,
    pid: process.pid,
    updatedAt: new Date(nowMs).toISOString(),
    folder: '',
    revision,
    addresses,
    resources: describeStored(resources),
    replicas,
    problems,
  }
}

export function describeStored(kinds: readonly StoredKind[]): readonly ResourceStatus[] {
  return kinds.flatMap(({ kind, resources }) =>
    resources
      .map(resource => toResourceStatus(kind, resource))
      .sort((a, b) => (a.origin < b.origin ? -1 : 1)),
  )
}

function toResourceStatus(
  kind: StoredKind['kind'],
  { metadata, spec, status = {} }: StoredResource,
): ResourceStatus {
  const { name, namespace = '', uid = '', generation = 0 } = metadata
  const { observedGeneration = 0, enforced = '', conditions = [] } = status
  const counts = kind.counts.map(({ field }) => [field, Number(status[field] ?? 0)])
  return {
    kind: kind.definition.kind,
    namespace,
    name,
    uid,
    origin: `${namespace}/${name}`,
    observedGeneration,
    subject: kind.readSubject(undefined, spec),
    counts: Object.fromEntries(counts),
    enforced,
    problems: [],
    ...((status['quota'] ?? status['leases']) !== undefined && { sharing: readSharing(status) }),
    ...(kind.readDetails && { details: kind.readDetails(status) }),
    conditions: observedGeneration < generation && !isPaused(conditions) ? [unseen(generation)] : conditions,
  }
}

const isPaused = (conditions: readonly StatusCondition[]) => conditions.some(({ type }) => type === 'Paused')

/** Returns the condition of a resource whose stored conditions are of an older generation. */
function unseen(generation: number): StatusCondition {
  return {
    type: 'Ready',
    status: 'False',
    reason: 'Pending',
    message: `Generation ${generation} has not been observed yet`,
    observedGeneration: 0,
    lastTransitionTime: '',
  }
}
