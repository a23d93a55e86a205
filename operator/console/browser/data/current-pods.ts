import type { ResourceList } from '../../../api/shapes.ts'

type Pod = ResourceList['pods'][number]

const toPodKey = ({ namespace, pod }: Pod) => `${namespace}/${pod}`

/**
 * Leaves out silent processes that were replaced: another process of the same name reports or is listed
 * later.
 */
export function currentPods(pods: readonly Pod[]): readonly Pod[] {
  const reporting = new Set(pods.filter(({ isReporting }) => isReporting).map(toPodKey))
  const silent = new Map(pods.filter(pod => !reporting.has(toPodKey(pod))).map(pod => [toPodKey(pod), pod]))
  return pods.filter(pod => pod.isReporting || silent.get(toPodKey(pod)) === pod)
}
