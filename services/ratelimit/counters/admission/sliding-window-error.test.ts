import assert from 'node:assert/strict'
import { test } from 'node:test'
import { slidingLog } from '../../../../test/oracles/sliding-log.ts'
import { SlidingWindow, type SlidingWindowState } from './sliding-window.ts'

const limit = 100
/** A minute in milliseconds. */
const windowTicks = 60_000
const windows = 2_000

/** Generates the times, in order, of calls of one hit each. */
type Arrivals = (random: () => number) => Generator<number>

/** Calls of many independent callers, whose rate is this multiple of the limit. */
const steady = (load: number): Arrivals =>
  function* (random) {
    for (let now = 0; now < windows * windowTicks; ) {
      now += (-Math.log(1 - random()) * windowTicks) / (load * limit)
      yield Math.floor(now)
    }
  }

/** Calls of one caller that makes many at once, then waits for up to two windows. */
const bursts: Arrivals = function* (random) {
  for (let now = 0; now < windows * windowTicks; now += random() * 2 * windowTicks) {
    const calls = Math.floor(2 * limit * random())
    for (let call = 0; call < calls; call++) yield Math.floor(now)
  }
}

/** The worst case: all calls in the last tick of a window, and one in each tick of the next. */
const worst: Arrivals = function* () {
  for (let call = 0; call < limit; call++) yield windowTicks - 1
  for (let now = windowTicks; now < 2 * windowTicks; now++) yield now
}

interface Errors {
  readonly calls: number
  /** The number of admitted calls for which an exact log of the admitted calls has no room. */
  readonly beyond: number
  /** The number of calls that the window admits, and that an exact log admits by itself (`admittedByLog`). */
  readonly admitted: number
  readonly admittedByLog: number
  /** The largest number of hits in any window that ends at a call. */
  readonly most: number
}

function measure(arrivals: Arrivals): Errors {
  const admittedCalls = slidingLog(windowTicks)
  const exact = slidingLog(windowTicks)
  const errors = { calls: 0, beyond: 0, admitted: 0, admittedByLog: 0, most: 0 }
  let stored: SlidingWindowState | undefined
  for (const now of arrivals(seeded())) {
    errors.calls += 1
    if (exact.hits(now) < limit) {
      exact.add(now)
      errors.admittedByLog += 1
    }
    const state = new SlidingWindow(stored, now, { limit, windowTicks })
    if (!state.admits(1)) continue
    state.add(1)
    stored = state.stored()
    if (admittedCalls.hits(now) >= limit) errors.beyond += 1
    admittedCalls.add(now)
    errors.admitted += 1
    errors.most = Math.max(errors.most, admittedCalls.hits(now))
  }
  return errors
}

/** Returns the same random numbers in each run, so that the documented figures can be reproduced. */
function seeded(): () => number {
  let state = 20_261_123
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/**
 * Each row: the arrivals; the least and the largest number of admitted calls, as a share of those of an exact
 * log; the largest number of hits in a window.
 */
const rows: readonly (readonly [string, Arrivals, number, number, number])[] = [
  ['independent callers, 0.8 × the limit', steady(0.8), 0.99, 1.01, 120],
  ['independent callers, at the limit', steady(1), 0.98, 1.02, 125],
  ['independent callers, 2 × the limit', steady(2), 0.98, 1.02, 115],
  ['bursts of up to twice the limit', bursts, 0.8, 1.2, 200],
  ['the worst case', worst, 1, 2, 200],
]

for (const [title, arrivals, least, largest, maxHits] of rows) {
  test(`the error of SlidingWindow against an exact log is bounded: ${title}`, t => {
    const { calls, beyond, admitted, admittedByLog, most } = measure(arrivals)
    const ratio = admitted / admittedByLog
    t.diagnostic(
      `${title}: ${calls} calls, ${admitted} admitted (${ratio.toFixed(3)} of an exact log), ` +
        `${((100 * beyond) / calls).toFixed(2)} % beyond it, at most ${most} hits in a window of ${limit}`,
    )
    assert.ok(ratio >= least && ratio <= largest, `${ratio} of the calls that an exact log admits`)
    assert.ok(most <= maxHits, `${most} hits in a window`)
  })
}
