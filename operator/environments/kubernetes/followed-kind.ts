import type { Log } from '@tollway/chassis/log/log.ts'
import { describeRepeated } from '../../controller/last-errors.ts'
import { createReflector, type Reflector } from '../../controller/reflector.ts'
import { readAnnotations, type Source, type SourcedResource } from '../../kinds/source.ts'
import { createReflectorSource, type KubeClient } from './api/client.ts'
import type { CustomResource } from './api/custom-resources.ts'
import type { KubeObject } from './api/kube-object.ts'
import { toSourcedResource } from './resources.ts'
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
    source: createSource(kind, reflector),
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

/**
 * Returns the source of the resources. It does not report a change of only the status or the labels: the
 * operator itself writes statuses, and each write would trigger another reconcile.
 */
function createSource(kind: string, reflector: Reflector<KubeObject>): Omit<Source, 'problems'> {
  /** The resources by uid. A resource stays the same object until it changes. */
  const known = new Map<string, SourcedResource>()

  function toResource(object: KubeObject): SourcedResource {
    const { uid = '', generation = 0, annotations } = object.metadata
    const { paused, rotation } = readAnnotations(annotations)
    const before = known.get(uid)
    if (before?.generation === generation && before.paused === paused && before.rotation === rotation)
      return before
    const resource = toSourcedResource(kind, object)
    known.set(uid, resource)
    return resource
  }

  function isKnown(object: KubeObject): boolean {
    const before = known.get(object.metadata.uid ?? '')
    return before !== undefined && toResource(object) === before
  }

  return {
    async start() {
      await reflector.synced()
    },
    list() {
      const resources = reflector.list().map(toResource)
      if (known.size > resources.length) {
        const uids = new Set(resources.map(({ uid }) => uid))
        for (const uid of known.keys()) if (!uids.has(uid)) known.delete(uid)
      }
      return resources
    },
    unread: () => [],
    onChange(listener) {
      reflector.onChange((namespace, name) => {
        const object = reflector.get(namespace, name)
        if (object === undefined || !isKnown(object)) listener()
      })
    },
    stop: reflector.stop,
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
