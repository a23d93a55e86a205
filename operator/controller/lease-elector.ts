import { setTimeout as pause } from 'node:timers/promises'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { WakeablePause } from '@tollway/chassis/wakeable-pause.ts'

/**
 * The spec of a Lease (coordination.k8s.io/v1). An elector never compares the times of a Lease with a clock,
 * because clocks of machines differ.
 */
interface LeaseSpec {
  /** Empty when the last holder released the lease. */
  readonly holderIdentity: string
  readonly leaseDurationSeconds: number
  /** RFC 3339 with six decimal places of the second; `renewTime` has the same format. */
  readonly acquireTime: string
  readonly renewTime: string
  readonly leaseTransitions: number
}

/**
 * A Lease as it was read. A write sends `metadata` back unchanged, and fails if the Lease has changed since
 * the read.
 */
export interface Lease {
  readonly metadata: { readonly name: string; readonly [field: string]: unknown }
  readonly spec: Partial<LeaseSpec>
}

/**
 * The Lease for which processes compete. `create` and `update` reject with `code` 409 on a conflict: see
 * `isConflict`.
 */
export interface LeaseAccess {
  get(signal: AbortSignal): Promise<Lease | undefined>
  create(spec: LeaseSpec, signal: AbortSignal): Promise<Lease>
  update(lease: Lease, spec: LeaseSpec, signal: AbortSignal): Promise<Lease>
  /**
   * Yields the later versions of a lease, and undefined when it is deleted. Ends when the server or the
   * signal ends it.
   */
  watch(lease: Lease, signal: AbortSignal): AsyncIterable<Lease | undefined>
}

interface LeaseElectorOptions {
  readonly lease: LeaseAccess
  /** The pod's name and a random id, so that a restarted process has a new identity. */
  readonly identity: string
  readonly onStarted: () => void
  /**
   * Called when the term ends. The elector neither releases nor requests the lease before the result
   * resolves.
   */
  readonly onStopped: () => void | Promise<void>
  /** Called with the holder when another process holds the lease, and with undefined when none does. */
  readonly onRival?: (identity: string | undefined) => void
  /** Called with the error of a failed attempt, for the log. Attempts continue. */
  readonly onError: (error: unknown) => void
  readonly random: () => number
  readonly clock?: Clock
  readonly timing?: Partial<LeaseTiming>
}

interface LeaseTiming {
  /** After this time without a renewal, another process may acquire the lease. In whole seconds. */
  readonly leaseMs: number
  /**
   * After this time without a renewal, the holder stops leading. The writes that it has begun may take until
   * `leaseMs`.
   */
  readonly renewDeadlineMs: number
  /**
   * The time between two renewals by the holder. A process whose watch of another holder's lease fails waits
   * as long before it reads the lease.
   */
  readonly retryMs: number
}

/** With these times a leader keeps the lease while the API server does not answer for up to 3 s. */
const defaultLeaseTiming: LeaseTiming = { leaseMs: 8_000, renewDeadlineMs: 6_000, retryMs: 3_000 }

/**
 * After a failed attempt, the next one starts at most this time after the start of the failed one, plus a
 * random time of at most `spreadMs`.
 */
const maxFailureSpacingMs = 1_000
/**
 * Waiting processes add a random time up to this one to their wait, so that they do not all continue at once.
 */
const spreadMs = 100

/**
 * The number of attempts to release the lease. An attempt fails if another process updates the lease at the
 * same time.
 */
const releaseTries = 3

interface Term {
  /** The monotonic time at which the last renewal was requested. */
  readonly renewedAtMs: number
  readonly lossTimer: NodeJS.Timeout
}

/**
 * Elects at most one of several processes as leader. A process may be suspended between its check of
 * `isLeader` and its write, and so write after another one has become leader. Therefore the new leader must
 * be able to override every write.
 */
export class LeaseElector {
  readonly #options: LeaseElectorOptions
  readonly #clock: Clock
  readonly #timing: LeaseTiming
  readonly #rival: RivalWatch
  readonly #stopping = new AbortController()
  readonly #pause = new WakeablePause()
  /** undefined while this process does not hold the lease. */
  #term: Term | undefined
  /** The lease as it was last read or written; undefined if it must be read first. */
  #known: Lease | undefined
  /** Resolves when the `onStopped` of the last term has resolved. */
  #endOfTerm: Promise<void> = Promise.resolve()
  #reportedRival: string | undefined
  #hasClaimed = false
  #running: Promise<void> = Promise.resolve()

  /** @throws Error unless `retryMs` < `renewDeadlineMs` < `leaseMs` and `leaseMs` is in whole seconds */
  constructor(options: LeaseElectorOptions) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#timing = { ...defaultLeaseTiming, ...options.timing }
    checkTiming(this.#timing)
    this.#rival = new RivalWatch(this.#clock, this.#timing.leaseMs)
  }

  start(): void {
    this.#running = this.#run()
  }

  /**
   * Returns whether this process holds the lease, and requested its last renewal less than `renewDeadlineMs`
   * ago. Callers check this before each write.
   */
  isLeader(): boolean {
    return this.ageMs() < this.#timing.renewDeadlineMs
  }

  /**
   * Returns the time since the last renewal was requested; Infinity while this process does not hold the
   * lease.
   */
  ageMs(): number {
    return this.#term === undefined
      ? Number.POSITIVE_INFINITY
      : this.#clock.monotonicMs() - this.#term.renewedAtMs
  }

  /** Makes this process read the lease at once. Called when the holder may have stopped. */
  readNow(): void {
    this.#pause.wake()
  }

  /**
   * Ends the term, waits for `onStopped`, and releases the lease, so that the next leader need not wait until
   * it expires.
   */
  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#endTerm()
    await this.#endOfTerm
    await this.#running
    if (this.#hasClaimed) await this.#release()
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      await this.#endOfTerm
      const startedMs = this.#clock.monotonicMs()
      try {
        const rivals = await this.#limited(limit => this.#attempt(limit))
        if (rivals !== undefined) await this.#followRival(rivals)
      } catch (error) {
        this.#known = undefined
        if (!isConflict(error)) this.#options.onError(error)
      }
      const { retryMs } = this.#timing
      const isRenewed = this.#known !== undefined
      const spacingMs = isRenewed ? retryMs : Math.min(retryMs / 3, maxFailureSpacingMs) + this.#spreadMs()
      await this.#pause.wait(Math.max(0, startedMs + spacingMs - this.#clock.monotonicMs()), signal)
    }
  }

  #spreadMs(): number {
    return 1 + spreadMs * this.#options.random()
  }

  /**
   * Renews the lease if this process holds it, and acquires it if it is free. Resolves with the lease if
   * another process holds it, else with undefined.
   */
  async #attempt(signal: AbortSignal): Promise<Lease | undefined> {
    const term = this.#term
    const current = this.#known ?? (await this.#options.lease.get(signal))
    if (current !== undefined && !this.#mayAcquire(current)) {
      this.#endTerm()
      return current
    }
    this.#reportRival(undefined)
    await this.#acquireOrRenew(current, term, signal)
    return undefined
  }

  /**
   * Returns whether this process holds the lease or may acquire it. Otherwise reports the holder to
   * `onRival`.
   */
  #mayAcquire({ spec }: Lease): boolean {
    const isOurs = spec.holderIdentity === this.#options.identity
    if (isOurs || this.#rival.observe(spec)) return true
    this.#reportRival(spec.holderIdentity)
    return false
  }

  /**
   * Resolves when the lease of another holder must be read again: it was released, its last known renewal has
   * expired, the watch has ended, or `readNow` was called.
   */
  async #followRival(lease: Lease): Promise<void> {
    const { signal } = this.#stopping
    const ending = new AbortController()
    const watching = this.#watchRival(lease, ending.signal)
    let isWoken = false
    while (!isWoken && !signal.aborted && this.#rival.leftMs() > 0) {
      isWoken = await this.#pause.wait(this.#rival.leftMs() + this.#spreadMs(), signal)
    }
    ending.abort()
    await watching
  }

  /**
   * Wakes the pause when the lease is free and when the watch ends; if the watch failed, `retryMs` after
   * that.
   */
  async #watchRival(lease: Lease, signal: AbortSignal): Promise<void> {
    try {
      for await (const next of this.#options.lease.watch(lease, signal)) {
        if (next === undefined || this.#mayAcquire(next)) break
      }
    } catch (error) {
      if (signal.aborted) return
      this.#options.onError(error)
      await pause(this.#timing.retryMs, undefined, { signal }).catch(() => {})
    }
    if (!signal.aborted) this.#pause.wake()
  }

  /** @param term the term at the start of the attempt */
  async #acquireOrRenew(
    current: Lease | undefined,
    term: Term | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { lease, identity } = this.#options
    const { leaseMs, renewDeadlineMs } = this.#timing
    const requestedAtMs = this.#clock.monotonicMs()
    const spec = nextSpec(current?.spec, identity, leaseMs, this.#clock.nowMs())
    this.#hasClaimed = true
    const written =
      current === undefined ? await lease.create(spec, signal) : await lease.update(current, spec, signal)
    // A lease that was granted too late, or after the term of the attempt has ended, begins no term.
    const isLate = this.#clock.monotonicMs() - requestedAtMs >= renewDeadlineMs
    if (isLate || this.#term !== term || this.#stopping.signal.aborted) return
    this.#known = written
    this.#beginOrRenewTerm(requestedAtMs)
  }

  #beginOrRenewTerm(renewedAtMs: number): void {
    const isNew = this.#term === undefined
    clearTimeout(this.#term?.lossTimer)
    const leftMs = renewedAtMs + this.#timing.renewDeadlineMs - this.#clock.monotonicMs()
    // A timer may fire slightly early. One millisecond later the deadline has certainly passed.
    const lossTimer = setTimeout(() => this.#endTerm(), Math.max(0, leftMs) + 1)
    this.#term = { renewedAtMs, lossTimer }
    if (isNew) this.#options.onStarted()
  }

  #endTerm(): void {
    if (this.#term === undefined) return
    const { onStopped, onError } = this.#options
    clearTimeout(this.#term.lossTimer)
    this.#term = undefined
    this.#known = undefined
    this.#endOfTerm = (async () => onStopped())().catch(onError)
  }

  #reportRival(identity: string | undefined): void {
    if (identity === this.#reportedRival) return
    this.#reportedRival = identity
    this.#options.onRival?.(identity)
  }

  async #release(): Promise<void> {
    for (let tries = 0; tries < releaseTries; tries++) {
      try {
        return await this.#limited(signal => this.#releaseOnce(signal))
      } catch (error) {
        if (!isConflict(error)) return this.#options.onError(error)
      }
    }
  }

  async #releaseOnce(signal: AbortSignal): Promise<void> {
    const { lease, identity } = this.#options
    const current = await lease.get(signal)
    if (current?.spec.holderIdentity !== identity) return
    await lease.update(current, nextSpec(current.spec, '', 1_000, this.#clock.nowMs()), signal)
  }

  /**
   * Aborts an operation after a third of `renewDeadlineMs`, so that an unanswered renewal can be repeated
   * before the deadline.
   */
  #limited<T>(operation: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return withTimeLimit(this.#timing.renewDeadlineMs / 3, operation)
  }
}

/** Detects that another holder has let its lease expire. Uses only the clock of this process. */
class RivalWatch {
  readonly #clock: Clock
  readonly #defaultLeaseMs: number
  /** The holder, the time and the number of transitions of the last known renewal, in JSON. */
  #seen = ''
  #seenAtMs = 0
  #leaseMs = 0

  constructor(clock: Clock, defaultLeaseMs: number) {
    this.#clock = clock
    this.#defaultLeaseMs = defaultLeaseMs
  }

  leftMs(): number {
    return Math.max(0, this.#seenAtMs + this.#leaseMs - this.#clock.monotonicMs())
  }

  /** Records a lease that was read. Returns whether it is free: it has no holder, or has expired. */
  observe({ holderIdentity = '', renewTime, leaseTransitions, ...spec }: Partial<LeaseSpec>): boolean {
    this.#leaseMs = 0
    if (holderIdentity === '') return true
    const renewal = JSON.stringify([holderIdentity, renewTime, leaseTransitions])
    if (renewal !== this.#seen) {
      this.#seen = renewal
      this.#seenAtMs = this.#clock.monotonicMs()
    }
    const { leaseDurationSeconds } = spec
    this.#leaseMs = leaseDurationSeconds === undefined ? this.#defaultLeaseMs : leaseDurationSeconds * 1000
    return this.#clock.monotonicMs() - this.#seenAtMs > this.#leaseMs
  }
}

/** Returns the spec that gives the lease to a holder, or to none if `holder` is empty. */
function nextSpec(old: Partial<LeaseSpec> = {}, holder: string, leaseMs: number, nowMs: number): LeaseSpec {
  const now = new Date(nowMs).toISOString().replace('Z', '000Z')
  const isSame = old.holderIdentity === holder
  const transitions = old.leaseTransitions ?? 0
  return {
    holderIdentity: holder,
    leaseDurationSeconds: leaseMs / 1000,
    acquireTime: isSame ? (old.acquireTime ?? now) : now,
    renewTime: now,
    leaseTransitions:
      isSame || holder === '' || old.holderIdentity === undefined ? transitions : transitions + 1,
  }
}

async function withTimeLimit<T>(
  timeoutMs: number,
  operation: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = new AbortController()
  const timer = setTimeout(() => {
    limit.abort(new Error(`the API server did not answer a request for the lease within ${timeoutMs} ms`))
  }, timeoutMs)
  try {
    return await operation(limit.signal)
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Returns whether a write failed because the object exists already, has changed since the read, or was
 * replaced by another one of the same name.
 */
export function isConflict(error: unknown): boolean {
  return (error as { readonly code?: unknown } | undefined)?.code === 409
}

function checkTiming({ leaseMs, renewDeadlineMs, retryMs }: LeaseTiming): void {
  if (!Number.isInteger(leaseMs / 1000)) throw new Error(`leaseMs: ${leaseMs} is not in whole seconds`)
  if (retryMs < renewDeadlineMs && renewDeadlineMs < leaseMs) return
  throw new Error(
    `the durations of a lease must be retryMs < renewDeadlineMs < leaseMs, ` +
      `and are ${retryMs}, ${renewDeadlineMs}, ${leaseMs}`,
  )
}
