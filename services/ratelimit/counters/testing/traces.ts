import assert from 'node:assert/strict'
import { array, constantFrom, double, integer, oneof, record } from 'fast-check'
import { type Oracle, slidingWindow, tokenBucket } from '../../../../test/oracles/algorithms.ts'
import type { Member, MemberOutcome } from '../admission/member.ts'

/** Calls of one limit, which changes between them. The clock may step back. */
export interface Trace {
  readonly ticksPerSecond: number
  readonly windowTicks: number
  readonly calls: readonly TracedCall[]
}

export interface TracedCall {
  /** The time in ticks. */
  readonly now: number
  readonly hits: number
  readonly limit: number
  readonly burst: number
}

/** Small numbers, so that limits are reached in all ways. A tick is a second. */
const smallTrace = record({
  windowTicks: integer({ min: 1, max: 17 }),
  limit: integer({ min: 0, max: 6 }),
  calls: array(
    record({
      pause: oneof({ weight: 8, arbitrary: integer({ min: 0, max: 12 }) }, integer({ min: -30, max: 60 })),
      hits: integer({ min: 0, max: 7 }),
      limit: constantFrom(undefined, undefined, undefined, 0, 1, 3, 8),
      burst: constantFrom(undefined, undefined, undefined, 1, 4),
    }),
    { minLength: 1, maxLength: 25 },
  ),
}).map(({ windowTicks, limit: firstLimit, calls }): Trace => {
  let now = 1_000
  let limit = firstLimit
  let burst = Math.max(1, limit)
  return {
    ticksPerSecond: 1,
    windowTicks,
    calls: calls.map(call => {
      now += call.pause
      limit = call.limit ?? limit
      burst = call.burst ?? burst
      return { now, hits: call.hits, limit, burst }
    }),
  }
})

const share = (max: number) => double({ min: 0, max, noNaN: true })
const exactBelow = 2 ** 52
const maxLimit = 2 ** 32 - 1
/** A whole number of milliseconds and of windows of a second. */
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
      hits: oneof(constantFrom(0, 1, 1, 1, 2, Number.MAX_SAFE_INTEGER), share(0.7), share(1.1)),
      limit: oneof({ weight: 4, arbitrary: constantFrom(undefined) }, share(1)),
      burst: oneof({ weight: 4, arbitrary: constantFrom(undefined) }, share(1)),
    }),
    { minLength: 1, maxLength: 25 },
  ),
}).map(({ ticksPerSecond, windowSeconds, most, calls }): Trace => {
  const windowTicks = windowSeconds * ticksPerSecond
  const largest = Math.min(most, Math.floor((exactBelow - 1) / windowTicks))
  const ticksPerStep = Math.max(1, ticksPerSecond / 1_000)
  let now = secondsOfBeginning * ticksPerSecond
  let limit = largest
  let burst = largest
  return {
    ticksPerSecond,
    windowTicks,
    calls: calls.map(call => {
      const pause = Math.floor((call.pause * windowTicks) / ticksPerStep) * ticksPerStep
      now += call.stepsBack ? -pause : pause
      limit = call.limit === undefined ? limit : Math.round(call.limit * largest)
      burst = call.burst === undefined ? burst : Math.max(1, Math.round(call.burst * largest))
      const hits = Number.isInteger(call.hits) ? call.hits : Math.ceil(call.hits * largest)
      return { now, hits, limit, burst }
    }),
  }
})

/** Every second of many traces has the numbers of real rules. */
export const trace = oneof(smallTrace, realTrace)

export type TracedAlgorithm = 'SlidingWindow' | 'TokenBucket'

export const oracles: Readonly<Record<TracedAlgorithm, (window: number) => Oracle>> = {
  SlidingWindow: slidingWindow,
  TokenBucket: tokenBucket,
}

/** No finite wait is longer. */
const longestWaitTicks = 2 ** 52

/** Returns a limit whose tick is a second. */
export function memberOf(
  algorithm: TracedAlgorithm,
  key: string,
  windowTicks: number,
  { hits, limit, burst }: Omit<TracedCall, 'now'>,
): Member {
  const whole = { ticksPerSecond: 1, expirySeconds: 60, shadow: false }
  return { ...whole, algorithm, key, windowTicks, hits, limit, burst }
}

/**
 * Decides the call by the oracle and compares the outcome: the call is admitted, `remaining` hits are the
 * most that would be, and the same call would be admitted after the wait and no tick earlier.
 */
export function assertEqualsOracle(
  oracle: Oracle,
  { now, hits, limit, burst }: TracedCall,
  { admitted, remaining, waitSeconds }: MemberOutcome,
  ticksPerSecond: number,
): void {
  const asked = Math.max(1, hits)
  assert.equal(admitted, oracle.call(now, asked, limit, burst, hits > 0), 'admitted')
  // A check changes nothing, so the oracle has no state at a clock that stepped back.
  if (hits === 0) return
  const admits = (count: number, wait = 0) => oracle.clone().call(now + wait, count, limit, burst, false)
  assert.ok(remaining === 0 || admits(remaining), `${remaining} remaining hits would be refused`)
  assert.ok(!admits(remaining + 1), `one more than ${remaining} remaining hits would be admitted`)
  if (waitSeconds === undefined) {
    assert.ok(!admits(asked, longestWaitTicks), 'it would be admitted later')
    return
  }
  const wait = Math.round(waitSeconds * ticksPerSecond)
  assert.ok(admits(asked, wait), `it would be refused after ${wait} ticks`)
  assert.ok(wait === 0 || !admits(asked, wait - 1), `it would be admitted before ${wait} ticks`)
}
