import { isOlderVersion } from '../../../controller/reflector-store.ts'
import type { ResourceStatus } from '../../../status/resource-status.ts'
import { isSameStatus, type StoredResource, type StoredStatus } from './stored-resource.ts'

export type ResourceKey = Pick<ResourceStatus, 'uid' | 'namespace' | 'name'>

/** The last write of one status. */
interface Written {
  readonly asked: StoredStatus
  readonly version: string
  /** Dropped when the watch has shown it, so that no second copy of every resource is kept. */
  readonly answer: StoredResource | undefined
}

/** The last write of each status, which the watch may not have shown yet. */
export class WrittenStatuses {
  readonly #stored: (namespace: string, name: string) => StoredResource | undefined
  readonly #written = new Map<string, Written>()

  /** @param stored returns the resource as the API server last reported it */
  constructor(stored: (namespace: string, name: string) => StoredResource | undefined) {
    this.#stored = stored
  }

  /** Returns the newest known state; undefined if the resource does not exist, or has another uid. */
  newest({ namespace, name, uid }: ResourceKey): StoredResource | undefined {
    const read = this.#stored(namespace, name)
    if (read?.metadata.uid !== uid) return undefined
    const own = this.#written.get(uid)
    if (own?.answer === undefined) return read
    if (isOlderVersion(versionOf(read), own.version)) return own.answer
    this.#written.set(uid, { ...own, answer: undefined })
    return read
  }

  /**
   * Returns whether this status needs no write. The stored one may differ from the last write, because other
   * clients own parts of it, or because the API server knows fewer fields.
   */
  isWritten(uid: string, newest: StoredResource, next: StoredStatus): boolean {
    if (isSameStatus(newest.status ?? {}, next)) return true
    const own = this.#written.get(uid)
    return own !== undefined && own.version === versionOf(newest) && isSameStatus(own.asked, next)
  }

  /** Records a write and its answer. */
  record(uid: string, asked: StoredStatus, { metadata, status = {} }: StoredResource): void {
    const { name, namespace, resourceVersion = '' } = metadata
    const answer = { metadata: { name, ...(namespace && { namespace }), uid, resourceVersion }, status }
    this.#written.set(uid, { asked, version: resourceVersion, answer })
  }

  /** Forgets the writes of all other resources. */
  retain(uids: Pick<ReadonlyMap<string, unknown>, 'has'>): void {
    for (const uid of this.#written.keys()) if (!uids.has(uid)) this.#written.delete(uid)
  }
}

function versionOf({ metadata }: StoredResource): string {
  return metadata.resourceVersion ?? ''
}
