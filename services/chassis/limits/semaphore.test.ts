import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Semaphore } from './semaphore.ts'

function start(limit: number) {
  const semaphore = new Semaphore(limit)
  const begun: string[] = []
  async function take(name: string, weight: number): Promise<void> {
    await semaphore.acquire(weight)
    begun.push(name)
  }
  return { semaphore, take, begun }
}

test('tasks run at once as far as their sizes fit, in their order', async () => {
  const { semaphore, take, begun } = start(10)
  take('a', 6)
  take('b', 4)
  take('c', 6)
  take('d', 1)
  await nextTurn()
  assert.deepEqual(begun, ['a', 'b'])
  semaphore.release(4)
  await nextTurn()
  assert.deepEqual(begun, ['a', 'b'])
  semaphore.release(6)
  await nextTurn()
  assert.deepEqual(begun, ['a', 'b', 'c', 'd'])
})

test('a task larger than the limit runs alone', async () => {
  const { semaphore, take, begun } = start(10)
  take('small', 1)
  take('large', 50)
  take('next', 1)
  await nextTurn()
  assert.deepEqual(begun, ['small'])
  semaphore.release(1)
  await nextTurn()
  assert.deepEqual(begun, ['small', 'large'])
  semaphore.release(50)
  await nextTurn()
  assert.deepEqual(begun, ['small', 'large', 'next'])
})

test('a task that cannot wait does not overtake those that do', () => {
  const semaphore = new Semaphore(2)
  assert.deepEqual(
    [semaphore.tryAcquire(), semaphore.tryAcquire(2), semaphore.tryAcquire()],
    [true, false, true],
  )
  void semaphore.acquire(2)
  semaphore.release()
  assert.equal(semaphore.tryAcquire(), false)
})
