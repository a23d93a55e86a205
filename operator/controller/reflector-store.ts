/** The fields of a cluster object that a reflector reads. */
export interface ReflectedObject {
  readonly metadata: {
    readonly name: string
    readonly namespace?: string
    readonly uid?: string
    readonly resourceVersion?: string
  }
}

export type ObjectStore<T extends ReflectedObject> = ReturnType<typeof createObjectStore<T>>

export function createObjectStore<T extends ReflectedObject>() {
  const objects = new Map<string, T>()
  const listeners: ((namespace: string, name: string) => void)[] = []

  function notify({ metadata: { namespace = '', name } }: ReflectedObject): void {
    for (const listener of listeners) listener(namespace, name)
  }

  /** Stores the object, unless a newer state of it is known. */
  function put(object: T): void {
    const key = toKey(object)
    const known = objects.get(key)
    if (known !== undefined && isOlderVersion(versionOf(object), versionOf(known))) return
    objects.set(key, object)
    if (known === undefined || versionOf(known) !== versionOf(object)) notify(object)
  }

  function remove(object: ReflectedObject): void {
    const known = objects.get(toKey(object))
    if (known === undefined || isOlderVersion(versionOf(object), versionOf(known))) return
    objects.delete(toKey(object))
    notify(object)
  }

  return {
    get: (namespace: string, name: string): T | undefined => objects.get(`${namespace}/${name}`),
    list: (): readonly T[] => [...objects.values()],
    /**
     * Calls the listener with the namespace and name of each object that changes. The listener must not throw.
     */
    onChange(listener: (namespace: string, name: string) => void): void {
      listeners.push(listener)
    },
    put,
    remove,
    /** Replaces the objects of the namespace, or of all namespaces if it is undefined, by these objects. */
    replace(namespace: string | undefined, fresh: readonly T[]): void {
      const kept = new Set(fresh.map(toKey))
      for (const object of fresh) put(object)
      for (const [key, object] of objects) {
        if (kept.has(key) || (namespace !== undefined && object.metadata.namespace !== namespace)) continue
        objects.delete(key)
        notify(object)
      }
    },
  }
}

function toKey({ metadata: { namespace = '', name } }: ReflectedObject): string {
  return `${namespace}/${name}`
}

export function versionOf({ metadata }: Pick<ReflectedObject, 'metadata'>): string {
  return metadata.resourceVersion ?? ''
}

/**
 * Returns whether a resourceVersion is older than another one of the same kind of object. Returns false if
 * one of them is not a decimal number, because such versions have no order.
 */
export function isOlderVersion(version: string, other: string): boolean {
  if (!isNumber(version) || !isNumber(other)) return false
  return version.length === other.length ? version < other : version.length < other.length
}

function isNumber(version: string): boolean {
  return /^(0|[1-9]\d*)$/.test(version)
}
