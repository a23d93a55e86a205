import { isObject } from '@tollway/chassis/is-object.ts'
import type { KubeClient } from '../api/client.ts'
import type { KubeObject } from '../api/kube-object.ts'
import { kinds } from './kinds.ts'
import { autoscaledAnnotation } from './objects/deployment.ts'

/** The field manager that owns the number of replicas until the autoscaler has written one. */
export const replicasOwner = 'tollway-replicas'

/** Returns whether the operator still owns the number of replicas of a Deployment that has an autoscaler. */
export function mustHandOver(wanted: KubeObject, live: KubeObject | undefined): boolean {
  return isAutoscaled(wanted) && (live === undefined || !isAutoscaled(live))
}

/**
 * Prepares a Deployment for an apply without `replicas`. The API server removes and then defaults a field
 * that its last owner no longer applies: the service would be left with one replica. Therefore another
 * manager applies the number first; a new Deployment begins with `replicas`. Reads the state of the server,
 * because a copy may be outdated; rejects with 409 if that changes meanwhile.
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
  return isObject(spec) ? spec : {}
}
