import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWakeablePause } from './wakeable-pause.ts'

const never = new AbortController().signal
const longMs = 60_000

test('a wait ends after its time, after a wake, and after an abort', async () => {
  const { wait, wake } = createWakeablePause()
  await wait(1, never)
  const woken = wait(longMs, never)
  wake()
  await woken
  const abort = new AbortController()
  const aborted = wait(longMs, abort.signal)
  abort.abort()
  await aborted
  await wait(longMs, abort.signal)
})

test('a wake before the wait ends the next wait at once', async () => {
  const { wait, wake } = createWakeablePause()
  wake()
  wake()
  await wait(longMs, never)
  let isOver = false
  const second = wait(longMs, never).then(() => {
    isOver = true
  })
  await new Promise(setImmediate)
  assert.equal(isOver, false)
  wake()
  await second
})
