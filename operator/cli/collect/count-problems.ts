import { conditionOf, type StatusReport } from '../../status/status-report.ts'

/** Returns how many resources have each reason not to be ready, and how many processes are not. */
export function countProblems({ resources, replicas, problems }: StatusReport) {
  const reasons: Record<string, number> = {}
  for (const resource of resources) {
    const { status, reason } = conditionOf(resource, 'Ready')
    if (status !== 'True') reasons[reason || 'Unknown'] = (reasons[reason || 'Unknown'] ?? 0) + 1
  }
  return {
    resources: resources.length,
    notReady: reasons,
    processes: replicas.length,
    processesNotReady: replicas.filter(({ ready }) => !ready).length,
    restarts: replicas.reduce((total, { restarts }) => total + restarts, 0),
    problems: problems.length,
  }
}
