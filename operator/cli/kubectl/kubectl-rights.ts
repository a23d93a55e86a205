import type { TollwayPod } from '../cluster/find-tollway.ts'
import type { Cluster } from '../cluster/open-cluster.ts'

/**
 * Rejects with an error that names the right if the user lacks one that `kubectl exec` or
 * `kubectl port-forward` needs. The error of kubectl has neither the words nor the exit code of Tollway's
 * commands.
 */
export async function requireRightsOf(
  subresource: 'exec' | 'portforward',
  cluster: Pick<Cluster, 'requireRight'>,
  { namespace }: Pick<TollwayPod, 'namespace'>,
): Promise<void> {
  // kubectl reads the pod first.
  await cluster.requireRight({ verb: 'get', resource: 'pods', namespace })
  await cluster.requireRight({ verb: 'create', resource: 'pods', subresource, namespace })
}
