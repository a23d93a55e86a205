import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { busyPollLimits, createBusyPoll } from './busy-poll.ts'

const { writesBeforePolling, maxGapMs, maxPollMs, cooldownFactor, initialCooldownMs, maxCooldownMs } =
  busyPollLimits

/** Creates an event loop in which each turn takes 0.01 ms. */
function createLoop() {
  let nowMs = 1000
  let due: (() => void) | undefined
  let overMs = 0
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  const poll = createBusyPoll({
    clock,
    isOver: () => nowMs >= overMs,
    inNextTurn: callback => {
      assert.equal(due, undefined, 'two polls at once')
      due = callback
    },
  })
  return {
    pass(ms: number) {
      nowMs += ms
    },
    /** Writes so often in a row that the next write is polled for. */
    write(writes = writesBeforePolling): void {
      for (let write = 0; write < writes; write += 1) poll(1)
    },
    /** Waits for an answer that takes `answerMs`, and returns how long the loop was kept awake. */
    wait(answerMs: number, requests = 1): number {
      const startMs = nowMs
      overMs = startMs + answerMs
      poll(requests)
      while (due !== undefined) {
        nowMs += 0.01
        const callback = due
        due = undefined
        callback()
      }
      return nowMs - startMs
    },
  }
}

function assertNear(found: number, expected: number): void {
  assert.ok(Math.abs(found - expected) < 0.02, `${found} instead of ${expected}`)
}

test('a poll lasts until the answer arrives, and the rest after it twice as long', () => {
  const loop = createLoop()
  loop.write()
  assertNear(loop.wait(0.1), 0.1)
  loop.pass(cooldownFactor * 0.1 - 0.03)
  assert.equal(loop.wait(0.1), 0)
  loop.pass(0.06)
  assertNear(loop.wait(0.1), 0.1)
})

test('a poll without an answer is short, and each is followed by a longer rest, up to a second', () => {
  const loop = createLoop()
  let restMs = initialCooldownMs
  loop.write()
  for (let wait = 0; wait < 12; wait += 1) {
    assertNear(loop.wait(5), maxPollMs)
    loop.pass(restMs - 0.1)
    loop.write()
    assert.equal(loop.wait(5), 0, `rest ${wait}`)
    loop.pass(0.2)
    restMs = Math.min(maxCooldownMs, 2 * restMs)
  }
})

test('an early answer ends the long rests', () => {
  const loop = createLoop()
  for (let wait = 0; wait < 5; wait += 1) {
    loop.write()
    loop.wait(5)
    loop.pass(maxCooldownMs)
  }
  loop.write()
  assertNear(loop.wait(0.1), 0.1)
  loop.pass(maxGapMs / 2)
  assertNear(loop.wait(5), maxPollMs)
  loop.pass(initialCooldownMs + 0.1)
  loop.write()
  assertNear(loop.wait(0.1), 0.1)
})

test('a write after a gap, and the first ones after it, are not polled for', () => {
  const loop = createLoop()
  loop.write(writesBeforePolling - 1)
  assert.equal(loop.wait(0.1), 0)
  loop.pass(maxGapMs)
  assertNear(loop.wait(0.1), 0.1)
  loop.pass(maxGapMs + 0.1)
  assert.equal(loop.wait(0.1), 0)
})

test('many requests are not polled for', () => {
  const loop = createLoop()
  loop.write()
  assert.equal(loop.wait(0.1, 5), 0)
  assertNear(loop.wait(0.1, 4), 0.1)
})

test('requests that begin during a poll share it', () => {
  let turns = 0
  const callbacks: (() => void)[] = []
  const clock = { nowMs: () => 0, monotonicMs: () => 0 }
  const isOver = () => ++turns > 3
  const poll = createBusyPoll({ clock, isOver, inNextTurn: callback => callbacks.push(callback) })
  for (let write = 0; write <= writesBeforePolling + 1; write += 1) poll(1)
  while (callbacks.length > 0) callbacks.shift()?.()
  assert.equal(turns, 4)
})

test('a busy poll that is off never polls', () => {
  const begun: (() => void)[] = []
  const poll = createBusyPoll({
    mode: 'off',
    clock: systemClock,
    isOver: () => false,
    inNextTurn: callback => begun.push(callback),
  })
  for (let write = 0; write <= writesBeforePolling; write += 1) poll(1)
  assert.equal(begun.length, 0)
})
