import type { KubeClient } from '../api/client.ts'
import { isRecord, type KubeObject } from '../api/kube-object.ts'
import { kinds } from './kinds.ts'
import { autoscaledAnnotation } from './objects/deployment.ts'

/** Keeps the number of replicas in force while its autoscaler has not written one yet. */
export const replicasOwner = 'tollway-replicas'

/** Whether the number of replicas of a Deployment is no longer ours, but still has to be given up. */
export function mustHandOver(wanted: KubeObject, live: KubeObject | undefined): boolean {
  return isAutoscaled(wanted) && (live === undefined || !isAutoscaled(live))
}

/**
 * Prepares a Deployment for being applied without `replicas`. A field that its last owner no longer names is
 * removed, and then defaulted: the service would be left with one replica. So another owner names the number
 * first; a Deployment that is not there begins with `replicas`. Looks at the server's own state, for a copy
 * may be old; rejects with 409 when that changes in between.
 */
export async function handOverReplicas(
  client: Pick<KubeClient, 'get' | 'apply'>,
  wanted: KubeObject,
  replicas: number,
): Promise<void> {
  const found = await client.get(kinds.Deployment, wanted.metadata)
  if (found !== undefined && isAutoscaled(found)) return
  const live =
    found ?? (await client.apply(kinds.Deployment, withReplicas(wanted, replicas), { force: true }))
  const { name, namespace } = wanted.metadata
  // The controller's first update of a new Deployment changes its version, but not its replicas.
  const version = found === undefined ? {} : { resourceVersion: live.metadata.resourceVersion }
  const { apiVersion, kind } = wanted
  const number = {
    apiVersion,
    kind,
    metadata: { name, namespace, ...version },
    spec: { replicas: replicasOf(live) },
  }
  await client.apply(kinds.Deployment, number as KubeObject, { owner: replicasOwner })
}

function isAutoscaled({ metadata }: KubeObject): boolean {
  return metadata.annotations?.[autoscaledAnnotation] !== undefined
}

function withReplicas(wanted: KubeObject, replicas: number): KubeObject {
  const { annotations: _, ...metadata } = wanted.metadata
  return { ...wanted, metadata, spec: { ...specOf(wanted), replicas } }
}

function replicasOf(object: KubeObject): unknown {
  return specOf(object)['replicas']
}

function specOf({ spec }: KubeObject): Readonly<Record<string, unknown>> {
  return isRecord(spec) ? spec : {}
}
