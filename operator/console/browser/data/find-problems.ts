import type { ResourceList } from '../../../api/shapes.ts'

/** The problems that need a person's attention. */
export interface FoundProblem {
  /** `pod tollway-ratelimit-0`, `RateLimitConfig shop/checkout`. */
  readonly subject: string
  readonly message: string
  readonly severity: 'error' | 'warning'
}

type Resource = ResourceList['items'][number]
type Pod = ResourceList['pods'][number]

/** Finds the problems of resources and pods; errors first. */
export function findProblems(resources: readonly Resource[], pods: readonly Pod[]): readonly FoundProblem[] {
  const found = [...pods.flatMap(problemsOfPod), ...resources.flatMap(problemsOfResource)]
  return found.sort((a, b) => rank(a) - rank(b))
}

const rank = ({ severity }: FoundProblem) => (severity === 'error' ? 0 : 1)

function problemsOfPod(pod: Pod): readonly FoundProblem[] {
  const subject = `pod ${pod.pod}`
  const age = Math.round(pod.lastReportMsAgo / 1000)
  return [
    ...(pod.isReporting
      ? []
      : [{ subject, message: `It has not reported for ${age} s.`, severity: 'error' as const }]),
    ...(pod.backendProblem === ''
      ? []
      : [
          {
            subject,
            message: `Its counters in ${pod.backend} fail: ${pod.backendProblem}`,
            severity: 'error' as const,
          },
        ]),
  ]
}

function problemsOfResource(resource: Resource): readonly FoundProblem[] {
  const { kind, namespace, name } = resource
  const subject = `${kind} ${namespace}/${name}`
  const error = (message: string) => ({ subject, message, severity: 'error' as const })
  const listed = [
    ...resource.problems.map(({ path, message }) => error(`${path}: ${message}`)),
    ...resource.rejections.map(({ pod, message }) => error(`${pod} rejects it: ${message}`)),
  ]
  if (listed.length > 0) return listed
  const ready = resource.conditions.find(({ type }) => type === 'Ready')
  if (ready?.status === 'True') return []
  const { reason = 'NoCondition', message = 'it has no condition Ready' } = ready ?? {}
  return [{ subject, message: `${reason}: ${message}`, severity: 'warning' }]
}
