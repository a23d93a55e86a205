import { readAnnotations, type Source, type SourcedResource } from '../../kinds/source.ts'

/** The custom resources of one kind, as a reflector keeps them. */
export interface ReflectedKind {
  readonly apiVersion: string
  readonly kind: string
  list(): readonly CustomObject[]
  get(namespace: string, name: string): CustomObject | undefined
  onChange(listener: (namespace: string, name: string) => void): void
  /** Resolves with true when all resources have been listed, or with false if `stop` was called before. */
  synced(): Promise<boolean>
  stop(): Promise<void>
}

/** The fields of a custom resource that `createKubernetesSource` reads. */
interface CustomObject {
  readonly metadata: {
    readonly name: string
    readonly namespace?: string
    readonly uid?: string
    readonly generation?: number
    readonly creationTimestamp?: unknown
    readonly annotations?: Readonly<Record<string, string>>
  }
  readonly spec?: unknown
}

/**
 * Returns the source of the custom resources of an API server. It does not report a change of only the status
 * or the labels: the operator itself writes statuses, and each write would trigger another reconcile.
 */
export function createKubernetesSource(kinds: readonly ReflectedKind[]): Source {
  /** The resources by uid. A resource stays the same object until it changes. */
  const known = new Map<string, SourcedResource>()

  function toResource(
    { apiVersion, kind }: ReflectedKind,
    { metadata, spec }: CustomObject,
  ): SourcedResource {
    const { name, namespace = '', uid = '', generation = 0, creationTimestamp, annotations } = metadata
    const asked = readAnnotations(annotations)
    const before = known.get(uid)
    const isSame = before?.paused === asked.paused && before.rotation === asked.rotation
    if (before?.generation === generation && isSame) return before
    const createdMs = Date.parse(`${creationTimestamp}`)
    const resource: SourcedResource = {
      apiVersion,
      kind,
      namespace,
      name,
      uid,
      generation,
      ...asked,
      spec,
      origin: `${namespace}/${name}`,
      ...(Number.isNaN(createdMs) ? {} : { createdMs }),
    }
    known.set(uid, resource)
    return resource
  }

  function saysTheSame(kind: ReflectedKind, namespace: string, name: string): boolean {
    const object = kind.get(namespace, name)
    const before = known.get(object?.metadata.uid ?? '')
    return object !== undefined && before !== undefined && toResource(kind, object) === before
  }

  return {
    async start() {
      await Promise.all(kinds.map(kind => kind.synced()))
    },
    list() {
      const resources = kinds.flatMap(kind => kind.list().map(object => toResource(kind, object)))
      if (known.size > resources.length) {
        const uids = new Set(resources.map(({ uid }) => uid))
        for (const uid of known.keys()) if (!uids.has(uid)) known.delete(uid)
      }
      return resources
    },
    problems: () => [],
    unread: () => [],
    onChange(listener) {
      for (const kind of kinds) {
        kind.onChange((namespace, name) => {
          if (!saysTheSame(kind, namespace, name)) listener()
        })
      }
    },
    async stop() {
      await Promise.all(kinds.map(kind => kind.stop()))
    },
  }
}
