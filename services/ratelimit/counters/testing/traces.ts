import { array, constantFrom, integer, oneof, record } from 'fast-check'
import { type Oracle, slidingWindow, tokenBucket } from '../../../../test/oracles/algorithms.ts'
import type { Member } from '../admission/member.ts'

/** Calls of one limit: pauses in ticks, hits, and changes of the limit. The clock may step back. */
export const trace = record({
  window: integer({ min: 1, max: 17 }),
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
})

export interface TracedCall {
  readonly now: number
  readonly hits: number
  readonly limit: number
  readonly burst: number
}

/** The first tick of a trace. */
const beginning = 1_000

/** Returns the calls of a trace with the tick and the limit of each. */
export function callsOf({ limit: firstLimit, calls }: ReturnType<typeof trace.generate>['value']) {
  let now = beginning
  let limit = firstLimit
  let burst = Math.max(1, limit)
  return calls.map((call): TracedCall => {
    now += call.pause
    limit = call.limit ?? limit
    burst = call.burst ?? burst
    return { now, hits: call.hits, limit, burst }
  })
}

export type TracedAlgorithm = 'SlidingWindow' | 'TokenBucket'

export const oracles: Readonly<Record<TracedAlgorithm, (window: number) => Oracle>> = {
  SlidingWindow: slidingWindow,
  TokenBucket: tokenBucket,
}

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

/** Decides the call by the oracle, and counts it if it has hits. */
export function decideByOracle(oracle: Oracle, { now, hits, limit, burst }: TracedCall): boolean {
  return oracle.call(now, Math.max(1, hits), limit, burst, hits > 0)
}
