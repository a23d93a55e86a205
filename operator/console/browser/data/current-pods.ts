import type { ResourceList } from '../../../api/shapes.ts'

type Pod = ResourceList['pods'][number]

const toPodKey = ({ namespace, pod }: Pod) => `${namespace}/${pod}`

/** Removes a silent process if another one of the same name reports, because it was restarted. */
export function currentPods(pods: readonly Pod[]): readonly Pod[] {
  const reporting = new Set(pods.filter(({ isReporting }) => isReporting).map(toPodKey))
  const silent = new Map(pods.filter(pod => !reporting.has(toPodKey(pod))).map(pod => [toPodKey(pod), pod]))
  return pods.filter(pod => pod.isReporting || silent.get(toPodKey(pod)) === pod)
}
