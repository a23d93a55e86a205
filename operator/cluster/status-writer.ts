import type { Condition } from '../controller/conditions.ts'
import { isOlderVersion } from '../controller/reflector-store.ts'
import { createWorkQueue, type Outcome } from '../controller/work-queue.ts'
import type { Memory } from '../reconcilers/remembered.ts'
import type { ResourceStatus } from '../reconcilers/resource-status.ts'
import {
  isSameStatus,
  readyCondition,
  type StoredResource,
  type StoredStatus,
  toStoredStatus,
} from './stored-resource.ts'

export interface StatusWriterOptions {
  /** As it is stored now, as far as is known. */
  readonly stored: (namespace: string, name: string) => StoredResource | undefined
  readonly memoryOf: (uid: string) => Memory | undefined
  /** Rejects with `code` 409 when the resource is another one, or has been changed since. */
  readonly apply: (resource: StoredResource, status: StoredStatus) => Promise<StoredResource>
  /** Whether we are the one that writes. Looked at before each write. */
  readonly mayWrite: () => boolean
  /** Whether a resource is ready, or why not, has become another one and has been written. */
  readonly onTransition: (resource: StoredResource, ready: Condition) => void
  /** Told of each write, and of each that failed. */
  readonly onWritten?: (ok: boolean) => void
  readonly onError: (name: string, error: unknown, retryMs: number) => void
  /** Uniform in [0, 1). */
  readonly random: () => number
}

type ResourceKey = Pick<ResourceStatus, 'uid' | 'namespace' | 'name'>

/** The one place from which statuses go to the API server. */
export interface StatusWriter {
  /** What the statuses of all resources shall be. Those that are not so already are written soon. */
  write(statuses: readonly ResourceStatus[]): void
  /** The conditions as they are stored, or were written a moment ago. */
  conditionsOf(resource: ResourceKey): readonly Condition[]
  /** Looks at this resource again: somebody else may have written its status. */
  lookAt(uid: string): void
  /** Looks at all of them again: it is our turn to write. */
  lookAtAll(): void
  waiting(): number
  stop(): Promise<void>
}

/** Statuses that are written at the same time. */
const concurrency = 8
/**
 * What is on its way to another state in a moment need not be told, and counts go together: after a start all pods
 * come anew, and their acknowledgements would double the writes.
 */
const settleMs = 1_000

export function createStatusWriter(options: StatusWriterOptions): StatusWriter {
  const { stored, memoryOf, apply, mayWrite, onTransition, onError, random } = options
  let wanted: ReadonlyMap<string, ResourceStatus> = new Map()
  /** Our last writes, and what came of them: others may own parts, or the API server know fewer fields. */
  const written = new Map<string, { readonly asked: StoredStatus; readonly answer: StoredResource }>()
  const later = new Set<string>()
  let laterTimer: NodeJS.Timeout | undefined

  const queue = createWorkQueue({
    concurrency,
    random,
    onError: (uid, error, retryMs) => {
      options.onWritten?.(false)
      onError(wanted.get(uid)?.name ?? uid, error, retryMs)
    },
    reconcile: write,
  })

  /** undefined when the resource is not there, or not that one. */
  function newestOf({ namespace, name, uid }: ResourceKey): StoredResource | undefined {
    const read = stored(namespace, name)
    if (read?.metadata.uid !== uid) return undefined
    const own = written.get(uid)?.answer
    return own !== undefined && isOlderVersion(versionOf(read), versionOf(own)) ? own : read
  }

  function isWritten(uid: string, newest: StoredResource, next: StoredStatus): boolean {
    if (isSameStatus(newest.status ?? {}, next)) return true
    const own = written.get(uid)
    return own !== undefined && versionOf(own.answer) === versionOf(newest) && isSameStatus(own.asked, next)
  }

  /** Why it has to be written: at once, or when it has settled. */
  function urgency(status: ResourceStatus): 'none' | 'now' | 'later' {
    const newest = newestOf(status)
    if (newest === undefined) return 'none'
    const old = newest.status ?? {}
    const next = toStoredStatus(status, memoryOf(status.uid))
    if (isWritten(status.uid, newest, next)) return 'none'
    if (isReconciling(next)) return 'later'
    return isSameStatus({ ...old, enforced: '' }, { ...next, enforced: '' }) ? 'later' : 'now'
  }

  function flushLater(): void {
    laterTimer = undefined
    for (const uid of later) queue.add(uid)
    later.clear()
  }

  function consider(status: ResourceStatus): void {
    const how = urgency(status)
    if (how === 'now') queue.add(status.uid)
    if (how !== 'later') return
    later.add(status.uid)
    laterTimer ??= setTimeout(flushLater, settleMs)
  }

  async function write(uid: string): Promise<Outcome> {
    const status = wanted.get(uid)
    const newest = status && newestOf(status)
    if (status === undefined || newest === undefined || !mayWrite()) return 'done'
    const next = toStoredStatus(status, memoryOf(uid))
    if (isWritten(uid, newest, next)) return 'done'
    written.set(uid, { asked: next, answer: await apply(newest, next) })
    options.onWritten?.(true)
    const [before, ready] = [readyCondition(newest.status ?? {}), readyCondition(next)]
    const isOther = before?.status !== ready?.status || before?.reason !== ready?.reason
    if (ready !== undefined && isOther && !isReconciling(next)) onTransition(newest, ready)
    return 'done'
  }

  return {
    write(statuses) {
      wanted = new Map(statuses.map(status => [status.uid, status]))
      for (const uid of written.keys()) if (!wanted.has(uid)) written.delete(uid)
      if (mayWrite()) for (const status of statuses) consider(status)
    },
    conditionsOf: resource => newestOf(resource)?.status?.conditions ?? [],
    lookAt: uid => queue.add(uid),
    lookAtAll() {
      for (const status of wanted.values()) consider(status)
    },
    waiting: () => queue.waiting() + later.size,
    async stop() {
      clearTimeout(laterTimer)
      await queue.stop()
    },
  }
}

function isReconciling({ conditions = [] }: StoredStatus): boolean {
  return conditions.some(({ type }) => type === 'Reconciling')
}

function versionOf({ metadata }: StoredResource): string {
  return metadata.resourceVersion ?? ''
}
