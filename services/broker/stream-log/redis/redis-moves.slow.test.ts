import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { missingProgram } from '../../../../test/support/require-server.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { type RingCursor, restartedEnd, type StreamLog } from '../stream-log.ts'
import {
  appendUntilFull,
  collect,
  createResumable,
  createResumption,
  toBytes,
  toText,
} from '../testing/log-under-test.ts'
import {
  append,
  assertReads,
  openPatient,
  openProxied,
  openQuick,
  readStream,
  requestAt,
  serveRedis,
  waitForEnd,
} from '../testing/redis-log-under-test.ts'
import { findRejectionReason } from '../testing/stream-log.contract.ts'

const skip = missingProgram('redis-server')
const success = { how: 'completed' } as const

describe('a request in Redis whose producer moves to another broker', { skip, concurrency: false }, () => {
  test('a producer whose continuation had no reply can continue within its grace', async t => {
    const redis = await serveRedis(t)
    const one = await openPatient(t, redis.url)
    const { proxy, log: two } = await openProxied(t, redis)
    const old = await one.open(createResumable('r1', 60_000))
    append(old, 1, 2)
    old.suspend({ how: 'lost', status: { code: 'ERROR', message: 'the producer is gone' } })
    await requestAt(two)
    await proxy.setFault({ kind: 'lose-reply', to: 'HINCRBY', nth: 1 })
    assert.equal(await findRejectionReason(two.resume(createResumption(old.request))), 'unavailable')
    await waitFor('the fault to be noticed', () => !two.healthy)
    await waitFor('health', () => two.healthy)
    const { writer, uses } = await two.resume(createResumption(old.request))
    assert.equal(uses, 2)
    append(writer, 3, 4)
    await writer.end(success)
    const reader = await collect(await requestAt(one))
    await assertReads(reader, 4)
    assert.equal(await waitForEnd(reader), 'completed')
  })

  describe('a request in Redis whose lost producer begins it again at another broker', () => {
    const lost = { how: 'lost', status: { code: 'ERROR', message: 'the producer is gone' } } as const
    const opening = createResumable('r1', 60_000)

    test('readers get the messages of the lost broker, and then the end', async t => {
      const redis = await serveRedis(t)
      const [one, two] = await Promise.all([openPatient(t, redis.url), openPatient(t, redis.url)])
      const old = await one.open(opening)
      const reader = await collect(await requestAt(two))
      append(old, 1, 2_000)
      old.suspend(lost)
      await waitFor('the end', async () => await two.endLost(opening))
      await two.open(opening)
      await assertReads(reader, 2_000)
      assert.equal(await waitForEnd(reader), `lost: ERROR ${restartedEnd.status.message}`)
    })

    test('the request ends if its broker is cut off, and that broker gets the end later', async t => {
      const redis = await serveRedis(t)
      const { proxy, log: one } = await openProxied(t, redis)
      const two = await openPatient(t, redis.url, { answerMs: 300 })
      const old = await one.open(opening)
      const readers = [await collect(old.request), await collect(await requestAt(two))]
      append(old, 1, 2)
      for (const reader of readers) await assertReads(reader, 2)
      assert.equal(await two.endLost(opening), false)
      await proxy.setFault({ kind: 'silence' })
      append(old, 3, 4)
      const beganMs = performance.now()
      assert.equal(await two.endLost(opening), true)
      assert.ok(performance.now() - beganMs >= 290, 'the broker had no time to answer')
      const next = await two.open(opening)
      await proxy.setFault()
      await waitFor('the old producer to be notified', () => old.endedBy)
      assert.deepEqual(old.endedBy, restartedEnd)
      for (const reader of readers)
        assert.equal(await waitForEnd(reader), `lost: ERROR ${restartedEnd.status.message}`)
      assert.deepEqual(readers[1]?.texts, ['header', '1', '2'])
      assert.equal(next.endedBy, undefined)
    })

    test('the request of a broker of an earlier version, which answers no questions, does not end', async t => {
      const redis = await serveRedis(t)
      const { proxy, log: one } = await openProxied(t, redis)
      const two = await openPatient(t, redis.url, { answerMs: 300 })
      const { request } = await one.open(opening)
      await requestAt(two)
      await proxy.setFault({ kind: 'silence' })
      const key = `{tollway:broker}:heartbeat:${request.key.replace(/\.\d+$/, '')}`
      const beat = async (count: number) => void (await redis.command('SET', key, `${count}`))
      await beat(1)
      const asked = two.endLost(opening)
      for (let count = 2; count < 6; count += 1) await beat(count)
      assert.equal(await asked, false)
    })
  })

  test('a slow reader gets the end of a request that ended as soon as its producer moved', async t => {
    const redis = await serveRedis(t)
    const { proxy, log: one } = await openProxied(t, redis)
    const two = await openPatient(t, redis.url)
    const { slow, move } = await moving(one, two)
    // Delayed, so that one reply to the first broker has both changes of the directory.
    await proxy.setFault({ kind: 'latency', ms: 100 })
    await waitFor('a delayed reply', () => proxy.struck() > 2)
    const { request, endedBy } = await move()
    await waitFor('the old writer to end', endedBy)
    await proxy.setFault()
    await waitFor('Redis to forget the request', async () => (await readStream(redis, request)) === '')
    await assertReadsLast(slow)
  })

  test('readers of a producer that moved get its last entries, even if only the end is noticed', async t => {
    const redis = await serveRedis(t)
    const [one, two] = [await openQuick(t, redis.url), await openPatient(t, redis.url)]
    const { slow, move } = await moving(one, two)
    await redis.command('ACL', 'SETUSER', 'default', '-xread')
    const { request } = await move()
    await waitFor('the end to be noticed', () => request.ended)
    await redis.command('ACL', 'SETUSER', 'default', '+xread')
    await assertReadsLast(slow)
  })

  test('a reader that comes after a request moved does not get the end of its former broker', async t => {
    const redis = await serveRedis(t)
    const { proxy, log: one } = await openProxied(t, redis)
    const two = await openPatient(t, redis.url)
    const old = await one.open(createResumable('r1', 60_000))
    append(old, 1, 2)
    const slow = await old.request.read({ onReadable() {} })
    await requestAt(two)
    await waitFor('the entries', async () => (await readStream(redis, old.request)).includes('\n2'))
    await proxy.setFault({ kind: 'silence' })
    append(old, 3, 3)
    await waitFor('the former broker to end it', () => old.endedBy)
    const { writer } = await two.resume(createResumption(old.request))
    await proxy.setFault()
    await waitFor('health', () => one.healthy)
    append(writer, 3, 4)
    const reader = await collect(old.request)
    await assertReads(reader, 4)
    await writer.end(success)
    assert.equal(await waitForEnd(reader), 'completed')
    slow.close()
  })
})

/**
 * Opens a request with a full ring and a slow reader at `one`. Its producer then moves to `two`, appends the
 * entry `last` and ends.
 */
async function moving(one: StreamLog, two: StreamLog) {
  const limits = { bytes: 4000, keepMs: 200, whenFull: 'wait' } as const
  const old = await one.open(createResumable('r1', 60_000, limits))
  const { request } = old
  const slow = await request.read({ onReadable() {} })
  slow.next()
  await appendUntilFull(old, toBytes('x'.repeat(500)))
  await requestAt(two)
  async function move() {
    const { writer } = await two.resume(createResumption(request))
    writer.append(toBytes('last'))
    await writer.end(success)
    return { request, endedBy: () => old.endedBy }
  }
  return { slow, move }
}

async function assertReadsLast(cursor: RingCursor): Promise<void> {
  let last = ''
  const end = await waitFor('the end', () => {
    for (let entry = cursor.next(); entry !== undefined; entry = cursor.next()) last = toText(entry.bytes)
    return cursor.end
  })
  assert.deepEqual([end, last, cursor.takeGap()], [success, 'last', 0])
}
