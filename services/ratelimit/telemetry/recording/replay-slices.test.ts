import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createReplaySlices } from './replay.ts'

/** Uses up the slice, and resolves with the milliseconds until the next one. */
async function restMsOf(rest: () => Promise<void> | undefined): Promise<number> {
  let resting: Promise<void> | undefined
  while (resting === undefined) resting = rest()
  const startMs = performance.now()
  await resting
  return performance.now() - startMs
}

test('slices begin 2 ms apart while calls are decided, and else in the next turn of the loop', async () => {
  let decisions = 0
  const { yieldIfDue } = createReplaySlices(() => decisions, new AbortController().signal)
  let busySlices = 0
  const startMs = performance.now()
  while (performance.now() < startMs + 150) {
    decisions += 1
    busySlices += 1
    await restMsOf(yieldIfDue)
  }
  // A timer can be a millisecond early.
  const mostSlices = performance.now() - startMs + 1
  assert.ok(busySlices <= mostSlices, `${busySlices} of at most ${mostSlices} slices in a busy process`)
  // Many turns of the event loop take longer on a busy machine.
  const untilMs = performance.now() + 20_000
  let shortestMs = Number.POSITIVE_INFINITY
  while (shortestMs >= 0.9 && performance.now() < untilMs) {
    shortestMs = Math.min(shortestMs, await restMsOf(yieldIfDue))
  }
  assert.ok(shortestMs < 0.9, `${shortestMs} ms in a quiet process`)
})

test('the end of a replay ends its rest', async () => {
  const ending = new AbortController()
  const { yieldIfDue } = createReplaySlices(() => 0, ending.signal)
  let resting: Promise<void> | undefined
  while (resting === undefined) resting = yieldIfDue()
  ending.abort()
  await assert.rejects(resting, { name: 'AbortError' })
})
