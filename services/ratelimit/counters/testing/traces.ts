import assert from 'node:assert/strict'
import { array, boolean, constantFrom, double, integer, oneof, record } from 'fast-check'
import {
  concurrency,
  type Oracle,
  type OracleCall,
  slidingWindow,
  tokenBucket,
} from '../../../../test/oracles/algorithms.ts'
import { type LimitCheck, type LimitOutcome, leaseMs } from '../admission/limit-check.ts'
import { maxCount } from '../counters.ts'

/** The calls of one limit, which may change between them. The clock may step back. */
export interface Trace {
  readonly ticksPerSecond: number
  readonly windowTicks: number
  readonly calls: readonly TracedCall[]
}

/** A call whose time is in ticks. */
export type TracedCall = OracleCall

/** For each call, whether rejected hits count. In most traces this is the same for all calls. */
const countings = oneof(
  { weight: 4, arbitrary: constantFrom([false], [true]) },
  array(boolean(), { minLength: 1 }),
)

/** Small numbers, so that limits are reached in all ways. A tick is a second. */
const smallTrace = record({
  windowTicks: integer({ min: 1, max: 17 }),
  limit: integer({ min: 0, max: 6 }),
  calls: array(
    record({
      pause: oneof({ weight: 8, arbitrary: integer({ min: 0, max: 12 }) }, integer({ min: -30, max: 60 })),
      hits: integer({ min: -3, max: 7 }),
      limit: constantFrom(undefined, undefined, undefined, 0, 1, 3, 8),
      burst: constantFrom(undefined, undefined, undefined, 1, 4),
    }),
    { minLength: 1, maxLength: 25 },
  ),
  countings,
}).map(({ windowTicks, limit: firstLimit, calls, countings }): Trace => {
  let now = 1_000
  let limit = firstLimit
  let burst = Math.max(1, limit)
  return {
    ticksPerSecond: 1,
    windowTicks,
    calls: calls.map((call, index) => {
      now += call.pause
      limit = call.limit ?? limit
      burst = call.burst ?? burst
      return { now, hits: call.hits, limit, burst, countRejected: isCounting(countings, index) }
    }),
  }
})

const isCounting = (countings: readonly boolean[], call: number) =>
  countings[call % countings.length] === true

const share = (max: number) => double({ min: 0, max, noNaN: true })
const exactBelow = 2 ** 52
const maxLimit = 2 ** 32 - 1
/** The first second of a trace. It is a whole number of milliseconds and of windows of a second. */
const secondsOfBeginning = 1_700_000_000

/** Limits, windows and times of real rules, up to the largest products that are exact. */
const realTrace = record({
  ticksPerSecond: constantFrom(1, 1_000, 1_000_000),
  windowSeconds: oneof(integer({ min: 1, max: 3_600 }), integer({ min: 1, max: 366 * 86_400 })),
  most: oneof(integer({ min: 1, max: 1_000 }), integer({ min: 1, max: maxLimit })),
  calls: array(
    record({
      pause: oneof({ weight: 4, arbitrary: share(0.3) }, share(2.5)),
      stepsBack: oneof({ weight: 8, arbitrary: constantFrom(false) }, constantFrom(true)),
      hits: oneof(constantFrom(0, 1, 1, 1, 2, -1, maxCount, -maxCount), share(0.7), share(1.1)),
      limit: oneof({ weight: 4, arbitrary: constantFrom(undefined) }, share(1)),
      burst: oneof({ weight: 4, arbitrary: constantFrom(undefined) }, share(1)),
    }),
    { minLength: 1, maxLength: 25 },
  ),
  countings,
}).map(({ ticksPerSecond, windowSeconds, most, calls, countings }): Trace => {
  const windowTicks = windowSeconds * ticksPerSecond
  const largest = Math.min(most, Math.floor((exactBelow - 1) / windowTicks))
  const ticksPerStep = Math.max(1, ticksPerSecond / 1_000)
  let now = secondsOfBeginning * ticksPerSecond
  let limit = largest
  let burst = largest
  return {
    ticksPerSecond,
    windowTicks,
    calls: calls.map((call, index) => {
      const pause = Math.floor((call.pause * windowTicks) / ticksPerStep) * ticksPerStep
      now += call.stepsBack ? -pause : pause
      limit = call.limit === undefined ? limit : Math.round(call.limit * largest)
      burst = call.burst === undefined ? burst : Math.max(1, Math.round(call.burst * largest))
      const hits = Number.isInteger(call.hits) ? call.hits : Math.ceil(call.hits * largest)
      return { now, hits, limit, burst, countRejected: isCounting(countings, index) }
    }),
  }
})

/** Half of the traces have small numbers, and half have the numbers of real rules. */
export const trace = oneof(smallTrace, realTrace)

export type TracedAlgorithm = 'SlidingWindow' | 'TokenBucket' | 'Concurrency'

export const oracles: Readonly<Record<TracedAlgorithm, (window: number) => Oracle>> = {
  SlidingWindow: slidingWindow,
  TokenBucket: tokenBucket,
  Concurrency: concurrency,
}

/** A finite wait is at most this long. */
const longestWaitTicks = 2 ** 52

/** Returns a limit whose tick is a second. */
export function checkOf(
  algorithm: TracedAlgorithm,
  key: string,
  windowTicks: number,
  {
    hits,
    limit,
    burst,
    countRejected = false,
  }: Pick<TracedCall, 'hits' | 'limit' | 'burst'> & Partial<TracedCall>,
): LimitCheck {
  const whole = { ticksPerSecond: 1, expirySeconds: 60, shadow: false, countRejected }
  return { ...whole, algorithm, key, windowTicks, hits, limit, burst }
}

/**
 * Decides the call by the oracle and compares the outcomes: whether the call is admitted; that `remaining` is
 * the largest number of hits that would be admitted; and that the same call would be admitted after the wait,
 * but no tick earlier.
 */
export function assertEqualsOracle(
  oracle: Oracle,
  call: TracedCall,
  { admitted, remaining, waitSeconds }: LimitOutcome,
  ticksPerSecond: number,
): void {
  const asked = Math.max(1, call.hits)
  const { hits } = call
  assert.equal(admitted, oracle.call({ ...call, hits: hits === 0 ? 1 : hits }, hits !== 0), 'admitted')
  // A check of 0 hits changes nothing, so the oracle has not taken over a time at which the clock has stepped
  // back.
  if (hits === 0) return
  const admits = (hits: number, wait = 0) =>
    oracle.clone().call({ ...call, hits, now: call.now + wait }, false)
  const left = Math.max(0, remaining)
  assert.ok(left === 0 || admits(left), `${left} remaining hits would be rejected`)
  assert.ok(!admits(left + 1), `one more than ${left} remaining hits would be admitted`)
  if (waitSeconds === undefined) {
    assert.ok(!admits(asked, longestWaitTicks), 'it would be admitted later')
    return
  }
  // The seconds are rounded: above 2^51, several numbers of ticks are the same number of seconds.
  const rounded = Math.round(waitSeconds * ticksPerSecond)
  const waits = [rounded - 1, rounded, rounded + 1].filter(ticks => ticks / ticksPerSecond === waitSeconds)
  const isExact = (wait: number) => admits(asked, wait) && (wait === 0 || !admits(asked, wait - 1))
  assert.ok(waits.some(isExact), `it would not be admitted first after ${waits} ticks`)
}

/** Processes that take leases of one limit and admit calls from them, beside calls that have no lease. */
export interface LeaseTrace {
  readonly windowSeconds: number
  readonly limit: number
  readonly burst: number
  readonly steps: readonly LeaseStep[]
}

interface LeaseStep {
  /** In milliseconds, before the step. */
  readonly pause: number
  readonly process: number
  readonly what: 'take' | 'takeWithoutAnswer' | 'use' | 'end' | 'crash' | 'call'
  readonly hits: number
  readonly atLeast: number
}

export const leaseTrace = record<LeaseTrace>({
  windowSeconds: integer({ min: 1, max: 20 }),
  limit: integer({ min: 1, max: 50 }),
  burst: integer({ min: 1, max: 50 }),
  steps: array(
    record<LeaseStep>({
      pause: oneof(
        { weight: 4, arbitrary: integer({ min: 0, max: 200 }) },
        integer({ min: 0, max: 1_200 }),
        integer({ min: 0, max: 10_000 }),
      ),
      process: integer({ min: 0, max: 2 }),
      what: constantFrom('take', 'take', 'takeWithoutAnswer', 'use', 'use', 'use', 'end', 'crash', 'call'),
      hits: integer({ min: 1, max: 20 }),
      atLeast: integer({ min: 0, max: 3 }),
    }),
    { minLength: 1, maxLength: 40 },
  ),
})

/** The largest burst of a trace is repaid in this time at its lowest rate. */
const longestDebtMs = 50 * 20_000
/** A bucket is not refilled below a lease that nobody ends for this time; see `TokenBucket`. */
const longestLeaseMs = 2_000

/** What a process knows of its lease. */
interface HeldLease {
  left: number
  size: number
  sinceMicros: number
  untilMs: number
  key: string
}

/**
 * Runs a trace. Checks that the oracle of the limit, which knows only the calls that were admitted, admits each
 * of them too. Returns the outcomes of all checks.
 */
export async function runLeaseTrace(
  algorithm: 'FixedWindow' | 'TokenBucket',
  { windowSeconds, limit, burst, steps }: LeaseTrace,
  name: string,
  ask: (check: LimitCheck, nowMs: number) => LimitOutcome | Promise<LimitOutcome>,
): Promise<readonly LimitOutcome[]> {
  const ticksPerSecond = 1_000
  const windowMs = windowSeconds * 1_000
  const oracle = algorithm === 'TokenBucket' ? tokenBucket(windowMs) : fixedWindow(windowMs)
  const held = new Map<number, HeldLease>()
  const outcomes: LimitOutcome[] = []
  let nowMs = secondsOfBeginning * 1_000
  const keyNow = () => (algorithm === 'TokenBucket' ? name : `${name} ${Math.floor(nowMs / windowMs)}`)
  const askFor = async (key: string, hits: number, more: Partial<LimitCheck> = {}) => {
    const whole = { ...checkOf('TokenBucket', key, windowMs, { hits, limit, burst }), leased: true }
    const outcome = await ask({ ...whole, algorithm, ticksPerSecond, expirySeconds: 3_600, ...more }, nowMs)
    outcomes.push(outcome)
    return outcome
  }
  const assertAdmits = (hits: number) => {
    const call = { now: nowMs, hits, limit, burst, countRejected: false }
    assert.ok(oracle.call(call, true), `${hits} hits at ${nowMs} are more than the limit admits`)
  }
  for (const { pause, process, what, hits, atLeast } of steps) {
    nowMs += pause
    const key = keyNow()
    const found = held.get(process)
    const isUsable = found !== undefined && nowMs < found.untilMs && found.key === key
    const holds = isUsable ? found.left : 0
    if (what === 'call') {
      if ((await askFor(key, hits)).admitted) assertAdmits(hits)
    } else if (what === 'crash') held.delete(process)
    else if (what === 'use' && holds > 0) {
      const used = Math.min(hits, holds)
      assertAdmits(used)
      if (found !== undefined) found.left -= used
    } else if (what === 'end' && found !== undefined) {
      const { left, size: replaced, sinceMicros } = found
      held.delete(process)
      await askFor(found.key, 0 - left, { lease: { atLeast: 0, holds: 0, replaced, sinceMicros } })
    } else if (what === 'take' || what === 'takeWithoutAnswer') {
      const [replaced, sinceMicros] = isUsable ? [found.size, found.sinceMicros] : [0, 0]
      const { admitted, granted = 0 } = await askFor(key, hits, {
        lease: { atLeast, holds, replaced, sinceMicros },
      })
      assert.ok(granted <= hits && (granted === 0 || granted >= atLeast), `${granted} of ${hits} granted`)
      // The process does not know whether its lease was replaced, so it does not replace it again.
      if (what === 'takeWithoutAnswer' && found !== undefined) found.size = 0
      else if (what === 'take' && admitted) {
        const [left, sinceMicros] = [holds + granted, nowMs * 1_000]
        held.set(process, { left, size: left, sinceMicros, untilMs: nowMs + leaseMs, key })
      }
    }
  }
  nowMs += longestDebtMs + longestLeaseMs
  assert.equal((await askFor(keyNow(), 0)).remaining, algorithm === 'TokenBucket' ? burst : limit)
  return outcomes
}

/** Only the number of hits since the window began. */
function fixedWindow(windowMs: number): Pick<Oracle, 'call'> {
  const counts = new Map<number, number>()
  return {
    call({ now, hits, limit }) {
      const window = Math.floor(now / windowMs)
      const count = (counts.get(window) ?? 0) + hits
      counts.set(window, count)
      return count <= limit
    },
  }
}
