import assert from 'node:assert/strict'
import { array, boolean, constantFrom, double, integer, oneof, record } from 'fast-check'
import {
  concurrency,
  type Oracle,
  type OracleCall,
  slidingWindow,
  tokenBucket,
} from '../../../../test/oracles/algorithms.ts'
import type { LimitCheck, LimitOutcome } from '../admission/limit-check.ts'
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
  const counts = countRejected && algorithm !== 'Concurrency'
  const whole = { ticksPerSecond: 1, expirySeconds: 60, shadow: false, countRejected: counts }
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
