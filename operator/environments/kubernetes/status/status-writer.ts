import { createSlices } from '@tollway/chassis/slices.ts'
import { describeRepeated } from '../../../controller/last-errors.ts'
import { createPace } from '../../../controller/pace.ts'
import { isOlderVersion } from '../../../controller/reflector-store.ts'
import { type Outcome, WorkQueue } from '../../../controller/work-queue.ts'
import type { Condition } from '../../../status/conditions.ts'
import type { ResourceStatus } from '../../../status/resource-status.ts'
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
  /** Whether a status keeps the `lastGood` of an earlier version, which is not stored elsewhere yet. */
  readonly keepsLastGood: (uid: string) => boolean
  /** The numbers that change all the time: alone they are no reason to write at once. */
  readonly loads?: readonly string[]
  /** For how long loads alone wait to be written. 10,000 when left out. */
  readonly loadMs?: number
  /** Rejects with `code` 409 when the resource is another one, or has been changed since. */
  readonly apply: (resource: StoredResource, status: StoredStatus) => Promise<StoredResource>
  /** Whether we are the one that writes. Looked at before each write. */
  readonly mayWrite: () => boolean
  /** Whether a resource is ready, or why not, has become another one and has been written. */
  readonly onTransition: (resource: StoredResource, ready: Condition) => void
  /** Called after each write, successful or not. */
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
  /**
   * Compares the stored status of this resource with the wanted one, because another client may have written
   * it.
   */
  lookAt(uid: string): void
  /** Looks at all of them again: it is our turn to write. */
  lookAtAll(): void
  waiting(): number
  /** Returns the error of one status write that failed and is repeated; empty if no write fails. */
  problem(): string
  stop(): Promise<void>
}

/** Statuses that are written at the same time. */
const concurrency = 8
/** Thousands of writes must not take the API server from others. */
const writesPerSecond = 300
const writesAtOnce = 100
/**
 * The delay before a status is written that only reports reconciling or other counts: such statuses change
 * again soon. After a start all pods connect again, and their acknowledgements would double the writes.
 */
const settleMs = 1_000
const defaultLoadMs = 10_000

export function createStatusWriter(options: StatusWriterOptions): StatusWriter {
  const { stored, keepsLastGood, apply, mayWrite, onTransition, onError, random } = options
  let wanted: ReadonlyMap<string, ResourceStatus> = new Map()
  /** The last write of each status. Others may own parts, or the API server know fewer fields. */
  const written = new Map<string, Written>()
  const { loads = [], loadMs = defaultLoadMs } = options

  /** The errors of the writes that are repeated, by uid. */
  const failing = new Map<string, unknown>()

  const queue = new WorkQueue({
    concurrency,
    random,
    onError: (uid, error, retryMs) => {
      options.onWritten?.(false)
      if (wanted.has(uid)) failing.set(uid, error)
      onError(wanted.get(uid)?.name ?? uid, error, retryMs)
    },
    reconcile: writeInTurn,
  })

  /** undefined when the resource is not there, or not that one. */
  function newestOf({ namespace, name, uid }: ResourceKey): StoredResource | undefined {
    const read = stored(namespace, name)
    if (read?.metadata.uid !== uid) return undefined
    const own = written.get(uid)
    if (own?.answer === undefined) return read
    if (isOlderVersion(versionOf(read), own.version)) return own.answer
    written.set(uid, { ...own, answer: undefined })
    return read
  }

  function nextOf(status: ResourceStatus, newest: StoredResource): StoredStatus {
    return toStoredStatus(status, keepsLastGood(status.uid) ? newest.status?.lastGood : undefined)
  }

  function isWritten(uid: string, newest: StoredResource, next: StoredStatus): boolean {
    if (isSameStatus(newest.status ?? {}, next)) return true
    const own = written.get(uid)
    return own !== undefined && own.version === versionOf(newest) && isSameStatus(own.asked, next)
  }

  /** When it has to be written: at once, when it has settled, or with others of its like. */
  function urgency(status: ResourceStatus): 'none' | 'now' | 'later' | 'seldom' {
    const newest = newestOf(status)
    if (newest === undefined) return 'none'
    const old = newest.status ?? {}
    const next = nextOf(status, newest)
    if (isWritten(status.uid, newest, next)) return 'none'
    if (isSameStatus(without(old, loads), without(next, loads))) return 'seldom'
    if (isReconciling(next)) return 'later'
    const passing = [...loads, 'enforced']
    return isSameStatus(without(old, passing), without(next, passing)) ? 'later' : 'now'
  }

  const pace = createPace(writesPerSecond, writesAtOnce)
  const later = createDelay(settleMs, uid => queue.add(uid))
  const seldom = createDelay(loadMs, uid => queue.add(uid))
  /** Those that may have to be written. Thousands of comparisons are made in slices. */
  const unconsidered = new Set<string>()
  let considering: Promise<void> | undefined

  function lookAt(uid: string): void {
    unconsidered.add(uid)
    considering ??= considerAll()
  }

  async function considerAll(): Promise<void> {
    const slices = createSlices()
    for (const uid of unconsidered) {
      unconsidered.delete(uid)
      const status = wanted.get(uid)
      if (status !== undefined && mayWrite()) consider(status)
      await slices.rest()
    }
    considering = undefined
  }

  function consider(status: ResourceStatus): void {
    const how = urgency(status)
    if (how === 'now') queue.add(status.uid)
    if (how === 'later') later.add(status.uid)
    if (how === 'seldom') seldom.add(status.uid)
  }

  async function writeInTurn(uid: string): Promise<Outcome> {
    const outcome = (await pace.turn()) ? await write(uid) : 'done'
    failing.delete(uid)
    return outcome
  }

  async function write(uid: string): Promise<Outcome> {
    const status = wanted.get(uid)
    const newest = status && newestOf(status)
    if (status === undefined || newest === undefined || !mayWrite()) return 'done'
    const next = nextOf(status, newest)
    if (isWritten(uid, newest, next)) return 'done'
    const { metadata, status: answered = {} } = await apply(newest, next)
    const { name, namespace, resourceVersion = '' } = metadata
    const answer = {
      metadata: { name, ...(namespace && { namespace }), uid, resourceVersion },
      status: answered,
    }
    written.set(uid, { asked: next, version: resourceVersion, answer })
    options.onWritten?.(true)
    const [before, ready] = [readyCondition(newest.status ?? {}), readyCondition(next)]
    const isOther = before?.status !== ready?.status || before?.reason !== ready?.reason
    if (ready !== undefined && isOther && !isReconciling(next)) onTransition(newest, ready)
    return 'done'
  }

  return {
    write(statuses) {
      const before = wanted
      wanted = new Map(statuses.map(status => [status.uid, status]))
      for (const known of [written, failing])
        for (const uid of known.keys()) if (!wanted.has(uid)) known.delete(uid)
      for (const status of statuses) if (before.get(status.uid) !== status) lookAt(status.uid)
    },
    conditionsOf: resource => newestOf(resource)?.status?.conditions ?? [],
    lookAt,
    lookAtAll() {
      for (const uid of wanted.keys()) lookAt(uid)
    },
    problem() {
      const [error] = failing.values()
      return error === undefined ? '' : describeRepeated('write a status', (error as Error).message)
    },
    waiting: () => unconsidered.size + queue.waiting() + later.size(),
    async stop() {
      unconsidered.clear()
      pace.stop()
      await considering
      later.stop()
      seldom.stop()
      await queue.stop()
    },
  }
}

interface Written {
  readonly asked: StoredStatus
  readonly version: string
  /** Dropped when the watch has caught up, so that no second copy of every resource is kept. */
  readonly answer: StoredResource | undefined
}

/** Passes on, in one go, all keys that were added within that time since the first one. */
function createDelay(ms: number, handOn: (uid: string) => void) {
  const held = new Set<string>()
  let timer: NodeJS.Timeout | undefined
  function flush(): void {
    timer = undefined
    for (const uid of held) handOn(uid)
    held.clear()
  }
  return {
    add(uid: string): void {
      held.add(uid)
      timer ??= setTimeout(flush, ms)
    },
    size: () => held.size,
    stop: () => clearTimeout(timer),
  }
}

function without(status: StoredStatus, fields: readonly string[]): StoredStatus {
  return Object.fromEntries(Object.entries(status).filter(([field]) => !fields.includes(field)))
}

function isReconciling({ conditions = [] }: StoredStatus): boolean {
  return conditions.some(({ type }) => type === 'Reconciling')
}

function versionOf({ metadata }: StoredResource): string {
  return metadata.resourceVersion ?? ''
}
