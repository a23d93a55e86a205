import type { Clock } from '@tollway/chassis/clock.ts'
import { createReflector, type Reflector, type ReflectorTiming } from '../../../controller/reflector.ts'
import { createReflectorSource, type KubeClient } from '../api/client.ts'
import type { ApiResource, KubeObject } from '../api/kube-object.ts'
import { kindNames, kinds, podResource, type WorkloadObjectKind } from './kinds.ts'
import {
  type Installation,
  type InstallationOwner,
  labelNames,
  ownObjectsSelector,
} from './objects/installation.ts'

export type OwnObjects = ReturnType<typeof followOwnObjects>

export interface KindObject {
  readonly kind: WorkloadObjectKind
  readonly object: KubeObject
}

interface OwnObjectsOptions {
  readonly client: Pick<KubeClient, 'list' | 'watch'>
  readonly installation: Installation
  readonly onError: (error: unknown, retryMs: number) => void
  readonly random: () => number
  readonly clock: Clock
  readonly timing?: Partial<ReflectorTiming> | undefined
}

/** Follows the objects with the installation's labels in its namespace, from now on. */
export function followOwnObjects(options: OwnObjectsOptions) {
  const { installation } = options
  const pods = follow(podResource, options)
  const byKind = new Map(kindNames.map(kind => [kind, follow(kinds[kind], options)]))
  const all = [pods, ...byKind.values()]
  return {
    get: (kind: WorkloadObjectKind, name: string): KubeObject | undefined =>
      byKind.get(kind)?.get(installation.namespace, name),
    /** Returns those objects of a workload that the installation owns, in the order of `kindNames`. */
    ofWorkload: (workload: string): readonly KindObject[] =>
      Array.from(byKind, ([kind, reflector]) =>
        reflector
          .list()
          .filter(({ metadata }) => metadata.labels?.[labelNames.name] === workload)
          .filter(object => isOwnedBy(object, installation.owner))
          .map(object => ({ kind, object })),
      ).flat(),
    pods: (): readonly KubeObject[] => pods.list(),
    /** Returns whether all kinds have been listed. Until then, an object that is not found may exist. */
    hasSynced: (): boolean => all.every(reflector => reflector.hasSynced()),
    /** Calls the listener after each change, and when a kind has been listed. The listener must not throw. */
    onChange(listener: () => void): void {
      for (const reflector of all) {
        reflector.onChange(() => listener())
        reflector.synced().then(() => listener())
      }
    },
    async stop(): Promise<void> {
      await Promise.all(all.map(reflector => reflector.stop()))
    },
  }
}

/**
 * Returns whether the installation owns the object. Labels alone prove nothing, because users can copy them.
 * Earlier versions set the operator's Deployment as the owner; it has the same name as the ConfigMap.
 */
function isOwnedBy({ metadata: { ownerReferences } }: KubeObject, { uid, name }: InstallationOwner): boolean {
  if (!Array.isArray(ownerReferences)) return false
  return ownerReferences.some(
    owner => owner?.uid === uid || (owner?.kind === 'Deployment' && owner.name === name),
  )
}

function follow(resource: ApiResource, options: OwnObjectsOptions): Reflector<KubeObject> {
  const { client, installation, onError, random, clock, timing = {} } = options
  return createReflector<KubeObject>({
    source: createReflectorSource(client, resource, { labelSelector: ownObjectsSelector(installation) }),
    namespaces: [installation.namespace],
    keep: withoutFields,
    onError,
    random,
    clock,
    timing,
  })
}

/**
 * Removes the field lists of `managedFields`, which take half of the memory of an object. The operator reads
 * only the managers and times.
 */
function withoutFields(object: KubeObject): KubeObject {
  const { managedFields, ...metadata } = object.metadata
  if (!Array.isArray(managedFields)) return object
  const managers = managedFields.map(({ manager, subresource, time }) => ({ manager, subresource, time }))
  return { ...object, metadata: { ...metadata, managedFields: managers } }
}
