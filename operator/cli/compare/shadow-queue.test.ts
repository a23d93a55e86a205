import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { waitFor } from '../../../test/support/wait-for.ts'
import { ShadowQueue } from './shadow-queue.ts'

function shadows(queue: ShadowQueue) {
  const running: (() => void)[] = []
  const dropped: number[] = []
  const add = (bytes = 1) =>
    queue.add({
      bytes,
      run: () => new Promise<void>(resolve => running.push(resolve)),
      drop: () => dropped.push(bytes),
    })
  return { running, dropped, add }
}

test('a queue runs some calls, keeps some, and rejects the others', async () => {
  const queue = new ShadowQueue({ maxRunning: 2, maxWaiting: 3, maxWaitingBytes: 100 })
  const { running, add } = shadows(queue)
  assert.deepEqual([add(), add()], [true, true])
  assert.equal(running.length, 0, 'no call begins in the turn that adds it')
  await nextTurn()
  assert.equal(running.length, 2)
  assert.deepEqual([add(), add(), add(), add()], [true, true, true, false])
  await nextTurn()
  assert.equal(running.length, 2)
  running[0]?.()
  await nextTurn()
  assert.equal(running.length, 3)
  assert.equal(add(), true)
})

test('a queue limits the bytes of its waiting calls', async () => {
  const queue = new ShadowQueue({ maxRunning: 1, maxWaiting: 10, maxWaitingBytes: 100 })
  const { add, running } = shadows(queue)
  assert.deepEqual([add(100), add(1)], [true, false])
  await nextTurn()
  assert.equal(running.length, 1)
  assert.deepEqual([add(60), add(41), add(40)], [true, false, true])
})

test('a queue that closes runs its waiting calls, and drops the rest after its grace period', async () => {
  for (const graceMs of [60_000, 0]) {
    const queue = new ShadowQueue({ maxRunning: 1, maxWaiting: 10, maxWaitingBytes: 100 })
    const { running, dropped, add } = shadows(queue)
    add(10)
    add(20)
    await nextTurn()
    const closing = queue.close(graceMs)
    if (graceMs === 0) await waitFor('the waiting call to be dropped', () => dropped.length === 1)
    else {
      running[0]?.()
      await waitFor('the waiting call to run', () => running.length === 2)
    }
    running.at(-1)?.()
    await closing
    assert.deepEqual(dropped, graceMs === 0 ? [20] : [])
  }
})
