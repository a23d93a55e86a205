import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSendPermits } from './send-permits.ts'

/** Waits for all work that is due without a timer. */
const settle = () => new Promise(resolve => setImmediate(resolve))

function start(maxBytes: number) {
  const permits = createSendPermits({ maxBytes, maxHoldMs: 1000 })
  const begun: string[] = []
  const releases = new Map<string, () => void>()
  async function take(name: string, bytes: number): Promise<void> {
    releases.set(name, await permits.take(bytes))
    begun.push(name)
  }
  return { take, begun, release: (name: string) => releases.get(name)?.() }
}

test('tasks run at once as far as their sizes fit, in their order', async () => {
  const { take, begun, release } = start(10)
  take('a', 6)
  take('b', 4)
  take('c', 6)
  take('d', 1)
  await settle()
  assert.deepEqual(begun, ['a', 'b'])
  release('b')
  release('b')
  await settle()
  assert.deepEqual(begun, ['a', 'b'])
  release('a')
  await settle()
  assert.deepEqual(begun, ['a', 'b', 'c', 'd'])
})

test('a task larger than the limit runs alone', async () => {
  const { take, begun, release } = start(10)
  take('small', 1)
  take('large', 50)
  take('next', 1)
  await settle()
  assert.deepEqual(begun, ['small'])
  release('small')
  await settle()
  assert.deepEqual(begun, ['small', 'large'])
  release('large')
  await settle()
  assert.deepEqual(begun, ['small', 'large', 'next'])
})

test('a task that is not released in time no longer delays the others', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { take, begun, release } = start(10)
  take('stuck', 10)
  take('next', 10)
  await Promise.resolve()
  t.mock.timers.tick(999)
  await settle()
  assert.deepEqual(begun, ['stuck'])
  t.mock.timers.tick(1)
  await settle()
  assert.deepEqual(begun, ['stuck', 'next'])
  release('stuck')
  take('last', 1)
  await settle()
  assert.deepEqual(begun, ['stuck', 'next'])
})
