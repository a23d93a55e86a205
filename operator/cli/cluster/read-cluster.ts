import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import { isNotFound } from '../../environments/kubernetes/api/api-error.ts'
import { apiVersion, customResource } from '../../environments/kubernetes/api/custom-resources.ts'
import { createKubernetesSource, type ReflectedKind } from '../../environments/kubernetes/resources.ts'
import type { SourcedResource } from '../../sources/source.ts'
import type { Cluster } from './open-cluster.ts'

/**
 * Resolves with the resources of Tollway in one namespace, or in all.
 *
 * @throws Error for a cluster without Tollway, or for a missing right
 */
export async function readCluster(
  cluster: Pick<Cluster, 'listAll'>,
  namespace: string | undefined,
): Promise<readonly SourcedResource[]> {
  const reflected: ReflectedKind[] = []
  for (const definition of resourceKinds) {
    const objects = await listKind(cluster, definition, namespace)
    reflected.push({ ...unchanging, apiVersion, kind: definition.kind, list: () => objects })
  }
  return createKubernetesSource(reflected).list()
}

export async function listKind(
  cluster: Pick<Cluster, 'listAll'>,
  definition: (typeof resourceKinds)[number],
  namespace: string | undefined,
) {
  try {
    return await cluster.listAll(customResource(definition), { namespace })
  } catch (error) {
    if (!isNotFound(error)) throw error
    const { kind, plural } = definition
    throw new Error(`this cluster has no Tollway: it does not know ${plural}.tollway.dev, the kind ${kind}`)
  }
}

/** The hooks of a list that does not follow changes. */
const unchanging = {
  get: () => undefined,
  onChange() {},
  synced: async () => true,
  async stop() {},
}
