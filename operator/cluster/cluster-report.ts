import type { Condition } from '../controller/conditions.ts'
import type { Replica } from '../infrastructure/provider.ts'
import type { ResourceStatus } from '../reconcilers/resource-status.ts'
import type { SourceProblem } from '../sources/source.ts'
import type { StatusReport } from '../standalone/status-report.ts'
import type { StoredResource } from './stored-resource.ts'

export interface ClusterReportOptions {
  readonly nowMs: number
  /** Where the services are reached. */
  readonly addresses: Readonly<Record<string, string>>
  readonly resources: readonly StoredResource[]
  readonly replicas: readonly Replica[]
  readonly problems: readonly SourceProblem[]
}

/**
 * What `tollway status` shows in a cluster: the statuses as they are stored, so that each operator tells the
 * same, whether it is the one that writes or not.
 */
export function makeClusterReport(options: ClusterReportOptions): StatusReport {
  const { nowMs, addresses, resources, replicas, problems } = options
  return {
    pid: process.pid,
    updatedAt: new Date(nowMs).toISOString(),
    folder: '',
    addresses,
    resources: resources.map(toResourceStatus).sort((a, b) => (a.origin < b.origin ? -1 : 1)),
    replicas,
    problems,
  }
}

function toResourceStatus({ metadata, spec, status = {} }: StoredResource): ResourceStatus {
  const { name, namespace = '', uid = '', generation = 0 } = metadata
  const { observedGeneration = 0, rules = 0, enforced = '', conditions = [] } = status
  const domain = (spec as { readonly domain?: unknown } | undefined)?.domain
  return {
    kind: 'RateLimitConfig',
    namespace,
    name,
    uid,
    origin: `${namespace}/${name}`,
    observedGeneration,
    domain: typeof domain === 'string' ? domain : '',
    rules,
    enforced,
    problems: [],
    conditions: observedGeneration < generation && !isPaused(conditions) ? [unseen(generation)] : conditions,
  }
}

const isPaused = (conditions: readonly Condition[]) => conditions.some(({ type }) => type === 'Paused')

/** What stands there tells of an older content. */
function unseen(generation: number): Condition {
  return {
    type: 'Ready',
    status: 'False',
    reason: 'Pending',
    message: `Generation ${generation} has not been looked at yet`,
    observedGeneration: 0,
    lastTransitionTime: '',
  }
}
