import type { Log } from '@tollway/chassis/log/log.ts'
import { apiVersion } from '@tollway/crds/resource-kind.ts'
import { describeRepeated } from '../../controller/last-errors.ts'
import { createReflector } from '../../controller/reflector.ts'

import { createReflectorSource, type KubeClient } from './api/client.ts'
import type { CustomResource } from './api/custom-resources.ts'
import type { KubeObject } from './api/kube-object.ts'
import { createKubernetesSource } from './resources.ts'
import type { StoredResource } from './status/stored-resource.ts'

export type FollowedKind = ReturnType<typeof followKind>

export function followKind(
  client: KubeClient,
  resource: CustomResource,
  watchNamespaces: readonly string[],
  log: Log,
) {
  const { kind } = resource
  let problem = ''
  const reflector = createReflector({
    source: createReflectorSource(client, resource),
    namespaces: watchNamespaces.length === 0 ? 'all' : watchNamespaces,
    keep: withoutBookkeeping,
    onError(error, retryMs) {
      problem = describeRepeated('follow the resources', (error as Error).message)
      const details = { kind, error: `${error}`, retryMs: Math.round(retryMs) }
      log.warn('follow resources failed', details)
    },
    onRecovered() {
      problem = ''
    },
    random: Math.random,
  })
  return {
    source: createKubernetesSource([{ apiVersion, kind, ...reflector }]),
    /** Returns the error of the last list or watch, which will be repeated; empty if it succeeded. */
    problem: (): string => problem,
    list: (): readonly StoredResource[] => reflector.list() as readonly StoredResource[],
    get: (namespace: string, name: string): StoredResource | undefined =>
      reflector.get(namespace, name) as StoredResource | undefined,
    /** Calls the listener with each changed resource, even if only its status has changed. */
    onChange(listener: (uid: string, resource: StoredResource) => void): void {
      reflector.onChange((namespace, name) => {
        const resource = reflector.get(namespace, name) as StoredResource | undefined
        const uid = resource?.metadata.uid
        if (resource !== undefined && uid !== undefined) listener(uid, resource)
      })
    },
  }
}

const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'

/**
 * Removes the annotation and the field in which clients record their writes. They are more than half of an
 * object, and nothing here reads them.
 */
function withoutBookkeeping(object: KubeObject): KubeObject {
  const { managedFields: _, annotations, ...metadata } = object.metadata
  const { [lastApplied]: _applied, ...kept } = (annotations ?? {}) as Readonly<Record<string, string>>
  return { ...object, metadata: { ...metadata, ...(annotations !== undefined && { annotations: kept }) } }
}
