import { conditionOf, type StatusReport } from '../../status/status-report.ts'

/** Returns the number of resources for each reason of a problem, and the numbers of processes. */
export function countProblems({ resources, replicas, problems }: StatusReport) {
  return {
    resources: resources.reduce((total, { resources = 1 }) => total + resources, 0),
    notReady: countReasons(resources, 'Ready', status => status !== 'True'),
    degraded: countReasons(resources, 'Degraded', status => status === 'True'),
    processes: replicas.length,
    processesNotReady: replicas.filter(({ ready }) => !ready).length,
    restarts: replicas.reduce((total, { restarts }) => total + restarts, 0),
    problems: problems.length,
  }
}

function countReasons(
  resources: StatusReport['resources'],
  type: string,
  isProblem: (status: string) => boolean,
): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const resource of resources) {
    const { status, reason } = conditionOf(resource, type)
    const key = reason || 'Unknown'
    if (isProblem(status)) counts[key] = (counts[key] ?? 0) + (resource.resources ?? 1)
  }
  return counts
}
