import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { createWakeablePause } from '@tollway/chassis/wakeable-pause.ts'

/** The spec of a Lease (coordination.k8s.io/v1). Its times are for people: only our own clock is trusted. */
export interface LeaseSpec {
  /** Empty when the last holder gave it up. */
  readonly holderIdentity: string
  readonly leaseDurationSeconds: number
  /** RFC 3339 with six digits of a second, as is `renewTime`. */
  readonly acquireTime: string
  readonly renewTime: string
  readonly leaseTransitions: number
}

/** A Lease as it was read. Its metadata goes back as it came, so that a write meets just that version. */
export interface Lease {
  readonly metadata: { readonly name: string; readonly [field: string]: unknown }
  readonly spec: Partial<LeaseSpec>
}

/** The one Lease that is fought for. A write that met another version rejects with `code` 409. */
export interface LeaseAccess {
  get(signal: AbortSignal): Promise<Lease | undefined>
  create(spec: LeaseSpec, signal: AbortSignal): Promise<Lease>
  update(lease: Lease, spec: LeaseSpec, signal: AbortSignal): Promise<Lease>
}

/**
 * Elects at most one of several processes as leader. A Lease does not fence: a process may be stopped between
 * its check of `isLeader` and its write, so a newer write must be able to override each write.
 */
export interface LeaseElector {
  start(): void
  /**
   * Whether this process holds the lease by a renewal younger than the deadline. Checked before each write.
   */
  isLeader(): boolean
  /** The age of the last renewal since its request; Infinity without the lease. */
  ageMs(): number
  /** Reads the lease at once, because its holder may be gone. */
  lookNow(): void
  /** Ends our term, waits for `onStopped`, and gives the lease up, so that a successor need not wait. */
  stop(): Promise<void>
}

export interface LeaseElectorOptions {
  readonly lease: LeaseAccess
  /** Unique, also among earlier processes of this pod: the pod's name and a random id. */
  readonly identity: string
  /** A term has begun. */
  readonly onStarted: () => void
  /** The term has ended. The lease is neither released nor requested again before the result resolves. */
  readonly onStopped: () => void | Promise<void>
  /** Called once when another process holds the lease, and with undefined when that ends. */
  readonly onRival?: (identity: string | undefined) => void
  /** For the log: a try that failed. The next one comes anyway. */
  readonly onError: (error: unknown) => void
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly clock?: Clock
  readonly timing?: Partial<LeaseTiming>
}

export interface LeaseTiming {
  /** How long the others wait after the last renewal that they saw. In whole seconds. */
  readonly leaseMs: number
  /** A holder whose last renewal is older stops; the rest up to `leaseMs` is for writes on their way. */
  readonly renewDeadlineMs: number
  /**
   * The time between a holder's renewals. The others read half as often, and when the lease that they saw has
   * expired: then they are late by one read at most.
   */
  readonly retryMs: number
}

/** Another process leads within 8 s after the holder stops: the lease, seen 2 s late at most. */
export const defaultLeaseTiming: LeaseTiming = { leaseMs: 6_000, renewDeadlineMs: 4_000, retryMs: 1_000 }

/** The attempts to release the lease, by an update that conflicts with any other one. */
const releaseTries = 3

/**
 * @throws Error when the durations are not `retryMs` < `renewDeadlineMs` < `leaseMs`, or `leaseMs` is not in
 * whole seconds.
 */
export function createLeaseElector(options: LeaseElectorOptions): LeaseElector {
  const { lease: access, identity, onStarted, onStopped, onError, random, clock = systemClock } = options
  const timing = { ...defaultLeaseTiming, ...options.timing }
  checkTiming(timing)
  const stopping = new AbortController()
  const rival = createRivalWatch(clock, timing.leaseMs)
  const pause = createWakeablePause()
  /** There while we hold the lease. */
  let term: { readonly renewedAtMs: number; readonly lossTimer: NodeJS.Timeout } | undefined
  /** As it was last read or written; undefined when it has to be read. */
  let known: Lease | undefined
  let endOfTerm: Promise<void> = Promise.resolve()
  let rivalTold: string | undefined
  let hasClaimed = false
  let running: Promise<void> = Promise.resolve()

  const ageMs = () => (term === undefined ? Number.POSITIVE_INFINITY : clock.monotonicMs() - term.renewedAtMs)
  const isLeader = () => ageMs() < timing.renewDeadlineMs

  function renewed(renewedAtMs: number): void {
    const isNew = term === undefined
    clearTimeout(term?.lossTimer)
    const leftMs = renewedAtMs + timing.renewDeadlineMs - clock.monotonicMs()
    // A timer may be a little early; one millisecond later the deadline has passed for sure.
    term = { renewedAtMs, lossTimer: setTimeout(endTerm, Math.max(0, leftMs) + 1) }
    if (isNew) onStarted()
  }

  function tellRival(identityOfRival: string | undefined): void {
    if (identityOfRival === rivalTold) return
    rivalTold = identityOfRival
    options.onRival?.(identityOfRival)
  }

  function endTerm(): void {
    if (term === undefined) return
    clearTimeout(term.lossTimer)
    term = undefined
    known = undefined
    endOfTerm = (async () => onStopped())().catch(onError)
  }

  /** Renews our Lease, acquires a free one, or reads who holds it. */
  async function attempt(signal: AbortSignal): Promise<void> {
    const termAtStart = term
    const current = known ?? (await access.get(signal))
    const isOurs = current?.spec.holderIdentity === identity
    if (current !== undefined && !isOurs && !rival.isGone(current.spec)) {
      tellRival(current.spec.holderIdentity)
      return endTerm()
    }
    tellRival(undefined)
    const askedAtMs = clock.monotonicMs()
    const spec = claim(current?.spec, identity, timing.leaseMs, clock.nowMs())
    hasClaimed = true
    const written =
      current === undefined ? await access.create(spec, signal) : await access.update(current, spec, signal)
    // A lease that was granted too late, or to a term that has ended, is read again before it counts.
    const isLate = clock.monotonicMs() - askedAtMs >= timing.renewDeadlineMs
    if (isLate || term !== termAtStart || stopping.signal.aborted) return
    known = written
    renewed(askedAtMs)
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      await endOfTerm
      try {
        await withTimeLimit(timing.renewDeadlineMs / 2, attempt)
      } catch (error) {
        known = undefined
        if (!isConflict(error)) onError(error)
      }
      await pause.wait(nextMs(), stopping.signal)
    }
  }

  /** The time until the next attempt. The random part keeps processes from acting at the same time. */
  function nextMs(): number {
    const retryMs = timing.retryMs * (0.9 + 0.1 * random())
    const leftMs = rival.leftMs()
    if (term !== undefined || leftMs === 0) return retryMs
    return Math.min(2 * retryMs, leftMs + 0.1 * retryMs)
  }

  async function release(signal: AbortSignal): Promise<void> {
    const current = await access.get(signal)
    if (current?.spec.holderIdentity !== identity) return
    const spec = claim(current.spec, '', 1_000, clock.nowMs())
    await access.update(current, spec, signal)
  }

  return {
    start() {
      running = run()
    },
    isLeader,
    ageMs,
    lookNow: pause.wake,
    async stop() {
      stopping.abort()
      endTerm()
      await endOfTerm
      await running
      for (let tries = 0; hasClaimed && tries < releaseTries; tries++) {
        try {
          await withTimeLimit(timing.renewDeadlineMs / 2, release)
          return
        } catch (error) {
          if (!isConflict(error)) return onError(error)
        }
      }
    },
  }
}

/** Whether the holder that is not us has let its lease run out, by our own clock. */
function createRivalWatch(clock: Clock, leaseMs: number) {
  let seen = ''
  let seenAtMs = 0
  let heldMs = 0
  return {
    /** The time until the lease that was seen last expires. */
    leftMs: () => Math.max(0, seenAtMs + heldMs - clock.monotonicMs()),
    isGone(spec: Partial<LeaseSpec>): boolean {
      heldMs = 0
      if ((spec.holderIdentity ?? '') === '') return true
      const now = JSON.stringify([spec.holderIdentity, spec.renewTime, spec.leaseTransitions])
      if (now !== seen) {
        seen = now
        seenAtMs = clock.monotonicMs()
      }
      heldMs = spec.leaseDurationSeconds === undefined ? leaseMs : spec.leaseDurationSeconds * 1000
      return clock.monotonicMs() - seenAtMs > heldMs
    },
  }
}

function claim(old: Partial<LeaseSpec> = {}, holder: string, leaseMs: number, nowMs: number): LeaseSpec {
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

async function withTimeLimit(
  timeoutMs: number,
  operation: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const limit = new AbortController()
  const timer = setTimeout(() => {
    limit.abort(new Error(`the lease was not answered for within ${timeoutMs} ms`))
  }, timeoutMs)
  try {
    await operation(limit.signal)
  } finally {
    clearTimeout(timer)
  }
}

function isConflict(error: unknown): boolean {
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
