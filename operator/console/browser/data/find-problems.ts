import type { ResourceList } from '../../../api/shapes.ts'
import { abnormalConditions } from './abnormal-conditions.ts'
import { linkTo } from './route.ts'

export interface ListedProblem {
  /** What has the problem: `pod tollway-ratelimit-0`, `RateLimitConfig shop/checkout`. */
  readonly subject: string
  readonly message: string
  readonly severity: 'error' | 'warning'
  readonly link?: string
}

type Resource = ResourceList['items'][number]
type Pod = ResourceList['pods'][number]

export function findProblems(resources: readonly Resource[], pods: readonly Pod[]): readonly ListedProblem[] {
  const found = [
    ...pods.flatMap(problemsOfPod),
    ...resources.flatMap(problemsOfResource),
    ...groupAbnormal(resources),
  ]
  return found.sort((a, b) => rank(a) - rank(b))
}

const rank = ({ severity }: ListedProblem) => (severity === 'error' ? 0 : 1)

function problemsOfPod(pod: Pod): readonly ListedProblem[] {
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

function problemsOfResource(resource: Resource): readonly ListedProblem[] {
  const subject = describeSubject(resource)
  const link = linkToResource(resource)
  const error = (message: string) => ({ subject, message, severity: 'error' as const, link })
  const listed = [
    ...resource.problems.map(({ path, message }) => error(`${path}: ${message}`)),
    ...resource.rejections.map(({ pod, message }) => error(`${pod} rejects it: ${message}`)),
  ]
  if (listed.length > 0) return listed
  const ready = resource.conditions.find(({ type }) => type === 'Ready')
  if (ready?.status === 'True') return []
  const { reason = 'NoCondition', message = 'it has no condition Ready' } = ready ?? {}
  return [{ subject, message: `${reason}: ${message}`, severity: 'warning', link }]
}

/** A RateLimitConfig is opened in the editor, which marks the lines with problems. */
function linkToResource({ kind, namespace, name }: Resource): string {
  if (kind === 'RateLimitConfig') return linkTo('what-if', { namespace, name })
  return linkTo(kind === 'Merchant' ? 'merchants' : 'streams')
}

const formatName = ({ namespace, name }: Resource) => `${namespace}/${name}`
const describeSubject = (resource: Resource) => `${resource.kind} ${formatName(resource)}`

/**
 * Returns one problem for all resources with the same abnormal condition: when a backend fails, all have it.
 */
function groupAbnormal(resources: readonly Resource[]): readonly ListedProblem[] {
  const found = new Map<string, ListedProblem & { readonly first: Resource; count: number }>()
  for (const resource of resources) {
    for (const { reason, message, severity } of abnormalConditions(resource.conditions)) {
      const text = `${reason}: ${message}`
      const key = JSON.stringify([resource.kind, text])
      const same = found.get(key)
      if (same !== undefined) same.count += 1
      else
        found.set(key, {
          subject: describeSubject(resource),
          message: text,
          severity,
          link: linkToResource(resource),
          first: resource,
          count: 1,
        })
    }
  }
  return [...found.values()].map(({ first, count, ...problem }) => ({
    ...problem,
    subject: count === 1 ? problem.subject : `${count} of ${first.kind}, such as ${formatName(first)}`,
  }))
}
