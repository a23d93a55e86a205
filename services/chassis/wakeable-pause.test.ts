import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WakeablePause } from './wakeable-pause.ts'

const never = new AbortController().signal
const longMs = 60_000

test('a wait ends after its time, after a wake, and after an abort', async () => {
  const pause = new WakeablePause()
  await pause.wait(1, never)
  const woken = pause.wait(longMs, never)
  pause.wake()
  await woken
  const abort = new AbortController()
  const aborted = pause.wait(longMs, abort.signal)
  abort.abort()
  await aborted
  await pause.wait(longMs, abort.signal)
})

test('a wake before the wait ends the next wait at once', async () => {
  const pause = new WakeablePause()
  pause.wake()
  pause.wake()
  await pause.wait(longMs, never)
  let isOver = false
  const second = pause.wait(longMs, never).then(() => {
    isOver = true
  })
  await new Promise(setImmediate)
  assert.equal(isOver, false)
  pause.wake()
  await second
})
