import type { ReflectorSource } from '../../../controller/reflector.ts'
import type { KubeClient, Selection } from './client.ts'
import type { ApiResource, KubeObject } from './kube-object.ts'

/** Returns the source of a reflector for the objects of one kind. */
export function collectionOf(
  client: Pick<KubeClient, 'list' | 'watch'>,
  resource: ApiResource,
  selectors: Omit<Selection, 'namespace'> = {},
): ReflectorSource<KubeObject> {
  return {
    list: request => client.list(resource, { ...selectors, ...request }),
    watch: request => client.watch(resource, { ...selectors, ...request }),
  }
}
