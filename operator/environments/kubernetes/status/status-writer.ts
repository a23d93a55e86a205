import { systemClock } from '@tollway/chassis/clock.ts'
import { RateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import { createSlices } from '@tollway/chassis/slices.ts'
import { describeRepeated } from '../../../controller/last-errors.ts'
import { isOlderVersion } from '../../../controller/reflector-store.ts'
import { type ReconcileOutcome, WorkQueue } from '../../../controller/work-queue.ts'
import type { StatusCondition } from '../../../status/conditions.ts'
import type { ResourceStatus } from '../../../status/resource-status.ts'
import {
  isSameStatus,
  readyCondition,
  type StoredResource,
  type StoredStatus,
  toStoredStatus,
} from './stored-resource.ts'

interface StatusWriterOptions {
  /** Returns the resource as the API server last reported it. */
  readonly stored: (namespace: string, name: string) => StoredResource | undefined
  /** Whether a status keeps the `lastGood` of an earlier version, which is not stored elsewhere yet. */
  readonly keepsLastGood: (uid: string) => boolean
  /** The counts that change all the time. A change of these alone is not written at once. */
  readonly loads?: readonly string[]
  /** The delay before a status is written in which only loads have changed. Defaults to 10,000. */
  readonly loadMs?: number
  /** Writes a status. Rejects with `code` 409 if the resource is another one, or has changed since. */
  readonly apply: (resource: StoredResource, status: StoredStatus) => Promise<StoredResource>
  /** Whether this operator leads. Checked before each write. */
  readonly mayWrite: () => boolean
  /** Called after the write of a status whose condition Ready has another status or reason. */
  readonly onTransition: (resource: StoredResource, ready: StatusCondition) => void
  /** Called after each write, successful or not. */
  readonly onWritten?: (ok: boolean) => void
  readonly onError: (name: string, error: unknown, retryMs: number) => void
  /** Uniform in [0, 1). */
  readonly random: () => number
}

/** The maximum of concurrent writes. */
const concurrency = 8
/** Thousands of writes must not slow the API server down for others. */
const writesPerSecond = 300
const writesAtOnce = 100
/**
 * The delay before a status is written that only reports reconciling or other counts: such statuses change
 * again soon. After a start all pods connect again, and their acknowledgements would double the writes.
 */
const settleMs = 1_000
const defaultLoadMs = 10_000

/** Writes the statuses of one kind to the API server. No other part of the operator writes them. */
export class StatusWriter {
  readonly #options: StatusWriterOptions
  readonly #written: WrittenStatuses
  #desired: ReadonlyMap<string, ResourceStatus> = new Map()
  /** The errors of the writes that are repeated, by uid. */
  readonly #failing = new Map<string, unknown>()
  readonly #queue: WorkQueue
  readonly #rate = new RateLimiter({ perSecond: writesPerSecond, burst: writesAtOnce }, systemClock)
  readonly #stopping = new AbortController()
  readonly #settling: Delay
  readonly #loadsOnly: Delay
  /** The statuses to compare with the stored ones. Thousands of comparisons are made in slices. */
  readonly #unchecked = new Set<string>()
  #checking: Promise<void> | undefined

  constructor(options: StatusWriterOptions) {
    this.#options = options
    this.#written = new WrittenStatuses(options.stored)
    this.#queue = new WorkQueue({
      concurrency,
      random: options.random,
      onError: (uid, error, retryMs) => this.#onError(uid, error, retryMs),
      reconcile: uid => this.#writeInTurn(uid),
    })
    const enqueue = (uid: string) => this.#queue.add(uid)
    this.#settling = new Delay(settleMs, enqueue)
    this.#loadsOnly = new Delay(options.loadMs ?? defaultLoadMs, enqueue)
  }

  /** Sets the desired statuses of all resources. Those that differ from the stored ones are written soon. */
  write(statuses: readonly ResourceStatus[]): void {
    const before = this.#desired
    this.#desired = new Map(statuses.map(status => [status.uid, status]))
    this.#written.retain(this.#desired)
    for (const uid of this.#failing.keys()) if (!this.#desired.has(uid)) this.#failing.delete(uid)
    for (const status of statuses) if (before.get(status.uid) !== status) this.recheck(status.uid)
  }

  /** Returns the conditions as they are stored, or were written a moment ago. */
  storedConditions(resource: ResourceKey): readonly StatusCondition[] {
    return this.#written.newest(resource)?.status?.conditions ?? []
  }

  /**
   * Compares the stored status of this resource with the desired one, because another client may have written
   * it.
   */
  recheck(uid: string): void {
    this.#unchecked.add(uid)
    this.#checking ??= this.#checkAll()
  }

  /** Compares all statuses, because this operator has become the leader. */
  recheckAll(): void {
    for (const uid of this.#desired.keys()) this.recheck(uid)
  }

  waiting(): number {
    return this.#unchecked.size + this.#queue.waiting() + this.#settling.size
  }

  /** Returns the error of one status write that failed and is repeated; empty if no write fails. */
  problem(): string {
    const [error] = this.#failing.values()
    return error === undefined ? '' : describeRepeated('write a status', (error as Error).message)
  }

  async stop(): Promise<void> {
    this.#unchecked.clear()
    this.#stopping.abort()
    await this.#checking
    this.#settling.stop()
    this.#loadsOnly.stop()
    await this.#queue.stop()
  }

  async #checkAll(): Promise<void> {
    const slices = createSlices()
    for (const uid of this.#unchecked) {
      this.#unchecked.delete(uid)
      const status = this.#desired.get(uid)
      if (status !== undefined && this.#options.mayWrite()) this.#check(status)
      await slices.yieldIfDue()
    }
    this.#checking = undefined
  }

  /** Enqueues the status at once, when it has settled, or with others that have other loads only. */
  #check(status: ResourceStatus): void {
    const { uid } = status
    const newest = this.#written.newest(status)
    if (newest === undefined) return
    const next = this.#makeStatus(status, newest)
    if (this.#written.isWritten(uid, newest, next)) return
    const urgency = rateUrgency(newest.status ?? {}, next, this.#options.loads ?? [])
    if (urgency === 'now') this.#queue.add(uid)
    if (urgency === 'later') this.#settling.add(uid)
    if (urgency === 'seldom') this.#loadsOnly.add(uid)
  }

  #makeStatus(status: ResourceStatus, newest: StoredResource): StoredStatus {
    const keepsLastGood = this.#options.keepsLastGood(status.uid)
    return toStoredStatus(status, keepsLastGood ? newest.status?.lastGood : undefined)
  }

  async #writeInTurn(uid: string): Promise<ReconcileOutcome> {
    try {
      await this.#rate.acquire(this.#stopping.signal)
    } catch {
      return 'done'
    }
    await this.#write(uid)
    this.#failing.delete(uid)
    return 'done'
  }

  async #write(uid: string): Promise<void> {
    const { apply, mayWrite, onWritten } = this.#options
    const status = this.#desired.get(uid)
    const newest = status && this.#written.newest(status)
    if (status === undefined || newest === undefined || !mayWrite()) return
    const next = this.#makeStatus(status, newest)
    if (this.#written.isWritten(uid, newest, next)) return
    this.#written.record(uid, next, await apply(newest, next))
    onWritten?.(true)
    this.#reportTransition(newest, next)
  }

  #reportTransition(before: StoredResource, next: StoredStatus): void {
    const [old, ready] = [readyCondition(before.status ?? {}), readyCondition(next)]
    const isOther = old?.status !== ready?.status || old?.reason !== ready?.reason
    if (ready !== undefined && isOther && !isReconciling(next)) this.#options.onTransition(before, ready)
  }

  #onError(uid: string, error: unknown, retryMs: number): void {
    const { onWritten, onError } = this.#options
    onWritten?.(false)
    if (this.#desired.has(uid)) this.#failing.set(uid, error)
    onError(this.#desired.get(uid)?.name ?? uid, error, retryMs)
  }
}

/** Returns when a status that differs from the stored one is written. */
function rateUrgency(old: StoredStatus, next: StoredStatus, loads: readonly string[]) {
  if (isSameStatus(without(old, loads), without(next, loads))) return 'seldom'
  if (isReconciling(next)) return 'later'
  const passing = [...loads, 'enforced']
  return isSameStatus(without(old, passing), without(next, passing)) ? 'later' : 'now'
}

/** Passes on, in one go, all keys that were added within that time since the first one. */
class Delay {
  readonly #ms: number
  readonly #onDue: (uid: string) => void
  readonly #held = new Set<string>()
  #timer: NodeJS.Timeout | undefined

  constructor(ms: number, onDue: (uid: string) => void) {
    this.#ms = ms
    this.#onDue = onDue
  }

  get size(): number {
    return this.#held.size
  }

  add(uid: string): void {
    this.#held.add(uid)
    this.#timer ??= setTimeout(() => this.#flush(), this.#ms)
  }

  stop(): void {
    clearTimeout(this.#timer)
  }

  #flush(): void {
    this.#timer = undefined
    for (const uid of this.#held) this.#onDue(uid)
    this.#held.clear()
  }
}

function without(status: StoredStatus, fields: readonly string[]): StoredStatus {
  return Object.fromEntries(Object.entries(status).filter(([field]) => !fields.includes(field)))
}

function isReconciling({ conditions = [] }: StoredStatus): boolean {
  return conditions.some(({ type }) => type === 'Reconciling')
}

type ResourceKey = Pick<ResourceStatus, 'uid' | 'namespace' | 'name'>

/** The last write of one status. */
interface Written {
  readonly asked: StoredStatus
  readonly version: string
  /** Dropped when the watch has shown it, so that no second copy of every resource is kept. */
  readonly answer: StoredResource | undefined
}

/** The last write of each status, which the watch may not have shown yet. */
class WrittenStatuses {
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
