import { systemClock } from '@tollway/chassis/clock.ts'
import { RateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import { createSlices } from '@tollway/chassis/slices.ts'
import { describeRepeated } from '../../../controller/last-errors.ts'
import { isOlderVersion, versionOf } from '../../../controller/reflector-store.ts'
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
  /** Returns the resource as the watch last reported it. */
  readonly stored: (namespace: string, name: string) => StoredResource | undefined
  /**
   * Returns whether a status keeps the field `lastGood`, which an earlier version wrote, because its content
   * is not stored elsewhere yet.
   */
  readonly keepsLastGood: (uid: string) => boolean
  /**
   * The fields of counts that change all the time. If only these have changed, the status is written after
   * `loadMs`.
   */
  readonly loads?: readonly string[]
  /**
   * The delay in milliseconds before a status is written in which only `loads` have changed; 10,000 by
   * default.
   */
  readonly loadMs?: number
  /**
   * Writes a status. Rejects with `code` 409 if the resource has changed since, or was replaced by another
   * one.
   */
  readonly apply: (resource: StoredResource, status: StoredStatus) => Promise<StoredResource>
  /** Returns whether this operator leads. Checked before each write. */
  readonly mayWrite: () => boolean
  /**
   * Called after a write that changed the status or reason of the condition Ready, unless the new status is
   * reconciling.
   */
  readonly onTransition: (resource: StoredResource, ready: StatusCondition) => void
  readonly onWritten?: (ok: boolean) => void
  readonly onError: (name: string, error: unknown, retryMs: number) => void
  readonly random: () => number
}

const concurrency = 8
/** Limits the rate, so that thousands of writes do not slow the API server down for other clients. */
const writesPerSecond = 300
const writesAtOnce = 100
/**
 * The delay before a write of a status that says reconciling, or in which only the counts and `enforced` have
 * changed. These statuses change again within seconds: after a start all pods connect, and their
 * acknowledgements would double the writes.
 */
const settleMs = 1_000
const defaultLoadMs = 10_000

/** Writes the statuses of one kind to the API server. No other part of the operator writes them. */
export class StatusWriter {
  readonly #options: StatusWriterOptions
  readonly #written: WrittenStatuses
  #desired: ReadonlyMap<string, ResourceStatus> = new Map()
  /** The errors of writes that failed and will be repeated, by uid. */
  readonly #failing = new Map<string, unknown>()
  readonly #queue: WorkQueue
  readonly #rate = new RateLimiter({ perSecond: writesPerSecond, burst: writesAtOnce }, systemClock)
  readonly #stopping = new AbortController()
  readonly #settling: Delay
  readonly #loadsOnly: Delay
  /**
   * The uids of statuses to compare with the stored ones. The comparisons yield to the event loop between
   * slices, because there may be thousands.
   */
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

  /** Sets the desired statuses of all resources. Those that differ from the stored ones are then written. */
  write(statuses: readonly ResourceStatus[]): void {
    const before = this.#desired
    this.#desired = new Map(statuses.map(status => [status.uid, status]))
    this.#written.retain(this.#desired)
    for (const uid of this.#failing.keys()) if (!this.#desired.has(uid)) this.#failing.delete(uid)
    for (const status of statuses) if (before.get(status.uid) !== status) this.recheck(status.uid)
  }

  /** Returns the stored conditions of a resource, including a write that the watch has not reported yet. */
  storedConditions(resource: ResourceKey): readonly StatusCondition[] {
    return this.#written.newest(resource)?.status?.conditions ?? []
  }

  /**
   * Compares the stored status of this resource with the desired one. Called when another client may have
   * changed it.
   */
  recheck(uid: string): void {
    this.#unchecked.add(uid)
    this.#checking ??= this.#checkAll()
  }

  /** Compares all statuses. Called when this operator has become the leader. */
  recheckAll(): void {
    for (const uid of this.#desired.keys()) this.recheck(uid)
  }

  waiting(): number {
    return this.#unchecked.size + this.#queue.waiting() + this.#settling.size
  }

  /** Returns the error of one write that failed and will be repeated; empty if there is none. */
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

  /** Enqueues the status if it differs from the stored one: now, after `settleMs`, or after `loadMs`. */
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
    return toStoredStatus(status, newest.status ?? {}, keepsLastGood)
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

/**
 * Returns how soon a changed status is written: `now`; `later`, after `settleMs`; or `seldom`, after
 * `loadMs`.
 */
function rateUrgency(old: StoredStatus, next: StoredStatus, loads: readonly string[]) {
  if (isSameStatus(without(old, loads), without(next, loads))) return 'seldom'
  if (isReconciling(next)) return 'later'
  const passing = [...loads, 'enforced']
  return isSameStatus(without(old, passing), without(next, passing)) ? 'later' : 'now'
}

/** Collects keys for a time that starts with the first key, then passes all of them to `onDue`. */
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
  /**
   * The answer to the write; undefined once the watch has reported it, so that resources are not kept twice.
   */
  readonly answer: StoredResource | undefined
}

/** The last write of each status. The watch may not have reported it yet. */
class WrittenStatuses {
  readonly #stored: (namespace: string, name: string) => StoredResource | undefined
  readonly #written = new Map<string, Written>()

  /** @param stored returns the resource as the watch last reported it */
  constructor(stored: (namespace: string, name: string) => StoredResource | undefined) {
    this.#stored = stored
  }

  /** Returns the newest known state of the resource; undefined if it does not exist, or has another uid. */
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
   * Returns whether a write of this status would change nothing. The stored status may differ from the last
   * write, because other clients own parts of it, or because the API server knows fewer fields.
   */
  isWritten(uid: string, newest: StoredResource, next: StoredStatus): boolean {
    if (isSameStatus(newest.status ?? {}, next)) return true
    const own = this.#written.get(uid)
    return own !== undefined && own.version === versionOf(newest) && isSameStatus(own.asked, next)
  }

  record(uid: string, asked: StoredStatus, { metadata, status = {} }: StoredResource): void {
    const { name, namespace, resourceVersion = '' } = metadata
    const answer = { metadata: { name, ...(namespace && { namespace }), uid, resourceVersion }, status }
    this.#written.set(uid, { asked, version: resourceVersion, answer })
  }

  retain(uids: Pick<ReadonlyMap<string, unknown>, 'has'>): void {
    for (const uid of this.#written.keys()) if (!uids.has(uid)) this.#written.delete(uid)
  }
}
