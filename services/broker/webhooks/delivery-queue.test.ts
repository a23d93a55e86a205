import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Semaphore } from '@tollway/chassis/limits/semaphore.ts'
import fc from 'fast-check'
import { waitFor } from '../../../test/support/wait-for.ts'
import { type Attempt, DeliveryQueue } from './delivery-queue.ts'
import type { Notification } from './notification.ts'

const createNotification = (run: string, what: 'begun' | 'ended'): Notification => ({
  ...{ run, id: `${run}.${what}`, type: `stream.${what}`, body: '{}' },
})

/** The outcomes of attempts, repeated over and over: (d)elivered, (f)ailed, (g)one. */
const outcomes = fc.array(fc.constantFrom('d', 'f', 'g'), { minLength: 1, maxLength: 20 })
const requests = fc.array(fc.record({ queue: fc.nat(2), begins: fc.boolean() }), { maxLength: 30 })

test('each notification is delivered or dropped once, and ends after begins', async () => {
  await fc.assert(
    fc.asyncProperty(requests, outcomes, fc.integer({ min: 1, max: 6 }), async (added, plan, count) => {
      const [settled, log]: [string[], string[]] = [[], []]
      const permits = new Semaphore(count)
      let [running, most, attempts, bytes] = [0, 0, 0, 0]
      async function attempt({ id }: Notification): Promise<Attempt> {
        running += 1
        most = Math.max(most, running)
        await nextTurn()
        running -= 1
        const outcome = plan[attempts++ % plan.length]
        log.push(id)
        // After many attempts all succeed, so that every run of the property ends.
        if (outcome === 'f' && attempts < 200) return { outcome: 'failed', retryAfterMs: 0 }
        if (outcome === 'g') return { outcome: 'rejected', reason: '' }
        settled.push(id)
        return { outcome: 'delivered' }
      }
      const queues = [0, 1, 2].map(
        () =>
          new DeliveryQueue({
            ...{ attempt, permits, random: Math.random, monotonicMs: () => 0 },
            onDrop: ({ id }) => settled.push(id),
            onSize(change) {
              bytes += change
            },
            timing: { retryMs: 1, maxRetryMs: 2, maxAgeMs: 1_000 },
          }),
      )
      const expected: string[] = []
      for (const [index, { queue, begins }] of added.entries()) {
        for (const what of begins ? (['begun', 'ended'] as const) : (['ended'] as const)) {
          queues[queue]?.add(createNotification(`r${index}`, what))
          expected.push(`r${index}.${what}`)
        }
        if (index % 3 === 0) await nextTurn()
      }
      await waitFor('all to be settled', () => settled.length >= expected.length)
      assert.deepEqual(settled.toSorted(), expected.toSorted())
      for (const [index] of added.entries()) {
        const begun = log.lastIndexOf(`r${index}.begun`)
        assert.ok(begun < log.indexOf(`r${index}.ended`), 'the end is attempted after the begin')
      }
      assert.ok(most <= count, `${most} attempts at a time`)
      assert.deepEqual([bytes, ...queues.map(queue => queue.count)], [0, 0, 0, 0])
    }),
    { numRuns: 50 },
  )
})

test('a queue that fails has one attempt at a time, and attempts nothing that is dropped', async () => {
  let [running, most, attempts] = [0, 0, 0]
  const dropped: string[] = []
  const queue = new DeliveryQueue({
    async attempt() {
      attempts += 1
      running += 1
      most = Math.max(most, running)
      await nextTurn()
      running -= 1
      if (attempts === 4) most = 0
      return { outcome: 'failed', retryAfterMs: 0 }
    },
    onDrop: ({ id }, reason) => dropped.push(`${id}: ${reason}`),
    onSize() {},
    permits: new Semaphore(100),
    ...{ random: Math.random, monotonicMs: () => 0, timing: { retryMs: 1, maxRetryMs: 1, maxAgeMs: 1_000 } },
  })
  for (let count = 0; count < 20; count += 1) queue.add(createNotification(`r${count}`, 'begun'))
  assert.equal(running, 4)
  await waitFor('more attempts', () => attempts > 40)
  assert.equal(most, 1)
  queue.dropAll('the end')
  assert.equal(dropped.length, 20)
  const before = attempts
  for (let turn = 0; turn < 20; turn += 1) await nextTurn()
  assert.ok(attempts <= before + 1)
  assert.equal(queue.count, 0)
})

test('after failures a queue pauses, and then drops what is too old without an attempt', async () => {
  let [attempts, nowMs] = [0, 0]
  const dropped: string[] = []
  const queue = new DeliveryQueue({
    async attempt() {
      attempts += 1
      await nextTurn()
      return { outcome: 'failed', retryAfterMs: 60_000 }
    },
    onDrop: ({ id }) => dropped.push(id),
    onSize() {},
    permits: new Semaphore(100),
    ...{ random: () => 0, monotonicMs: () => nowMs },
    timing: { retryMs: 100, maxRetryMs: 100, maxAgeMs: 100_000 },
  })
  const beganMs = performance.now()
  for (let count = 0; count < 20; count += 1) queue.add(createNotification(`r${count}`, 'begun'))
  await waitFor('the attempt after the first pause', () => attempts > 4)
  assert.ok(performance.now() - beganMs > 90)
  nowMs = 100_001
  // Notifications that wait for a retry of their own are dropped only when it is due.
  await waitFor('the drops', () => dropped.length + attempts >= 20)
  assert.ok(attempts < 10, `${attempts} attempts`)
  queue.dropAll('the end')
})
