import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { seededRandom } from '../../../../test/support/api-proxy.ts'
import { randomFault, startBackendProxy } from '../../../../test/support/backend-proxy.ts'
import { losingNothing, type RedisServer } from '../../../../test/support/redis-server.ts'
import { missingProgram } from '../../../../test/support/require-server.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { type LoggedRequest, shutdownEnd } from '../stream-log.ts'
import { reportedBy } from '../testing/end.contract.ts'
import { appendUntilFull, collect, createOpening, toBytes } from '../testing/log-under-test.ts'
import {
  append,
  assertReads,
  openPatient,
  openProxied,
  openQuick,
  openRedisLog,
  patientTimings,
  quickTimings,
  readStream,
  requestAt,
  serveRedis,
  waitForEnd,
} from '../testing/redis-log-under-test.ts'

const skip = missingProgram('redis-server')
const success = { how: 'completed' } as const
/** The number of seeds; an environment variable sets it for long runs. */
const seeds = Number(process.env['FC_RUNS'] ?? 3)

describe('the log in Redis under faults', { skip, concurrency: false }, () => {
  test('requests of a killed process are lost, and reported once to all brokers', async t => {
    const redis = await serveRedis(t)
    const logs = [await openQuick(t, redis.url), await openQuick(t, redis.url)]
    const reports = logs.map(log => reportedBy({ peer: log }))
    const program = fileURLToPath(new URL('../testing/redis-producer-under-test.ts', import.meta.url))
    const child = spawn(process.execPath, [program, redis.url, 'r1', '1', '2'], { stdio: 'inherit' })
    t.after(() => child.kill('SIGKILL'))
    const readers = await Promise.all(logs.map(async log => collect(await requestAt(log))))
    for (const reader of readers) await assertReads(reader, 2)
    child.kill('SIGKILL')
    await once(child, 'exit')
    assert.equal(await logs[0]?.open(createOpening('r1')).catch(error => error.reason), 'exists')
    for (const reader of readers)
      assert.equal(await waitForEnd(reader), "lost: ERROR the producer's broker was lost")
    const [lost] = logs[0]?.list() ?? []
    assert.deepEqual(reports.flat(), ['peer: r1 lost'])
    assert.equal((await readStream(redis, lost as LoggedRequest)).match(/^end$/gm)?.length, 1)
    const again = await waitFor('the ids to be free', () => logs[0]?.open(createOpening('r1')))
    assert.notEqual(again.request.key, lost?.key)
  })

  test('entries appended while Redis hangs are stored when it continues, once and in order', async t => {
    const redis = await serveRedis(t)
    const [one, two] = [await openPatient(t, redis.url), await openPatient(t, redis.url)]
    const writer = await one.open(createOpening('r1'))
    const [here, there] = [await collect(writer.request), await collect(await requestAt(two))]
    append(writer, 1, 10)
    await assertReads(there, 10)
    await redis.kill('SIGSTOP')
    append(writer, 11, 20)
    await assertReads(here, 20)
    await waitFor('the fault to be noticed', () => !one.healthy && !two.healthy)
    assert.notEqual(one.problem, '')
    append(writer, 21, 30)
    await redis.kill('SIGCONT')
    append(writer, 31, 40)
    await assertReads(there, 40)
    await writer.end(success)
    assert.deepEqual([await waitForEnd(here), await waitForEnd(there)], ['completed', 'completed'])
    await waitFor('health', () => one.healthy && two.healthy)
  })

  test('a producer queues entries for a hanging Redis within limits of size and time', async t => {
    const redis = await serveRedis(t)
    const [one, two] = [await openQuick(t, redis.url), await openQuick(t, redis.url)]
    const writer = await one.open(createOpening('r1'))
    const [here, there] = [await collect(writer.request), await collect(await requestAt(two))]
    await redis.kill('SIGSTOP')
    const bytes = toBytes('x'.repeat(10_000))
    let appended = 0
    while (writer.append(bytes)) appended += 1
    assert.ok(appended < 200, `${appended} entries were taken`)
    await writer.ready()
    assert.equal(writer.endedBy?.how, 'lost')
    assert.equal(await waitForEnd(here), 'lost: ERROR the log is away')
    assert.equal(await one.open(createOpening('r2')).catch(error => error.reason), 'unavailable')
    await redis.kill('SIGCONT')
    assert.equal(await waitForEnd(there), 'lost: ERROR the log is away')
    await waitFor('the ids to be free', () => two.open(createOpening('r1')))
  })

  test('an end that Redis does not accept is an error, and is reported when Redis is back', async t => {
    const redis = await serveRedis(t)
    const [one, two] = [await openQuick(t, redis.url), await openQuick(t, redis.url)]
    const writer = await one.open(createOpening('r1'))
    const there = await collect(await requestAt(two))
    append(writer, 1, 1)
    await assertReads(there, 1)
    await redis.kill('SIGSTOP')
    assert.equal(await writer.end(success).catch(error => error.reason), 'unavailable')
    await redis.kill('SIGCONT')
    assert.equal(await waitForEnd(there), 'completed')
  })

  test('a request whose last entries did not reach Redis is lost for readers of other brokers', async t => {
    const redis = await serveRedis(t)
    const proxy = await startBackendProxy({ targetPort: redis.port, seed: 1 })
    t.after(() => proxy.stop())
    const timings = { ...quickTimings, lostMs: patientTimings.lostMs }
    const one = await openRedisLog(t, `redis://${proxy.address}`, { timings })
    const two = await openRedisLog(t, redis.url, { timings })
    const writer = await one.open(createOpening('r1'))
    const there = await collect(await requestAt(two))
    await proxy.setFault({ kind: 'refuse' })
    append(writer, 1, 3)
    assert.equal(await writer.end(success).catch(error => error.reason), 'unavailable')
    await proxy.setFault()
    assert.equal(await waitForEnd(there), 'lost: ERROR the log is away')
    assert.deepEqual(there.texts, ['header'])
  })

  test('readers of another broker do not wait for a Redis that stays unavailable', async t => {
    const redis = await serveRedis(t)
    const [one, two] = [await openQuick(t, redis.url), await openQuick(t, redis.url)]
    await one.open(createOpening('r1'))
    const there = await collect(await requestAt(two))
    await redis.kill('SIGKILL')
    assert.equal(await waitForEnd(there), 'lost: ERROR the log is away')
  })

  test('a Redis that returns without its data ends running requests with an error', async t => {
    const redis = await serveRedis(t)
    const [one, two] = [await openPatient(t, redis.url), await openPatient(t, redis.url)]
    const busy = await one.open(createOpening('r1'))
    await one.open(createOpening('r2'))
    const requests = [busy.request, await requestAt(two, 'r1'), await requestAt(two, 'r2')]
    const readers = await Promise.all(requests.map(request => collect(request)))
    await redis.kill('SIGKILL')
    append(busy, 1, 5)
    await redis.restart()
    for (const reader of readers)
      assert.equal(await waitForEnd(reader), 'lost: ERROR the log has lost the request')
    assert.equal(busy.endedBy?.how, 'lost')
    await waitFor('health', () => one.healthy && two.healthy)
    await one.open(createOpening('r1'))
    await requestAt(two)
  })

  test('data loss without a restart is detected', async t => {
    const redis = await serveRedis(t)
    const [one, two] = [await openPatient(t, redis.url), await openPatient(t, redis.url)]
    const reports = reportedBy({ one, two })
    const writer = await one.open(createOpening('r1'))
    const there = await collect(await requestAt(two))
    await redis.command('FLUSHALL')
    assert.equal(await waitForEnd(there), 'lost: ERROR the log has lost the request')
    await waitFor('the producer to know', () => writer.endedBy)
    await waitFor('the report', () => reports.length > 0)
    assert.deepEqual(reports, ['one: r1 lost {}'])
  })

  test('requests continue after a restart of Redis with its data', async t => {
    const redis = await serveRedis(t, losingNothing)
    const [one, two] = [await openPatient(t, redis.url), await openPatient(t, redis.url)]
    const writer = await one.open(createOpening('r1'))
    const there = await collect(await requestAt(two))
    append(writer, 1, 10)
    await assertReads(there, 10)
    await redis.kill('SIGKILL')
    append(writer, 11, 20)
    await redis.restart()
    append(writer, 21, 30)
    await assertReads(there, 30)
    await writer.end(success)
    assert.equal(await waitForEnd(there), 'completed')
  })

  test('entries that Redis has lost of a running request are a gap', async t => {
    const redis = await serveRedis(t)
    const [one, two, late] = [
      await openPatient(t, redis.url),
      await openPatient(t, redis.url),
      await openPatient(t, redis.url),
    ]
    const writer = await one.open(createOpening('r1'))
    const there = await collect(await requestAt(two))
    append(writer, 1, 10)
    await assertReads(there, 10)
    await redis.command('SAVE')
    append(writer, 11, 20)
    await assertReads(there, 20)
    await redis.kill('SIGKILL')
    await redis.restart()
    append(writer, 21, 30)
    await assertReads(there, 30)
    await waitFor('Redis to be reached again', () => late.healthy)
    const cursor = await (await requestAt(late)).read({ onReadable() {} })
    await waitFor('the last entry', () => cursor.behind.entries === 10)
    const positions: number[] = []
    for (let entry = cursor.next(); entry; entry = cursor.next()) positions.push(entry.position)
    // A ring cannot have a hole, so for later readers the entries before the lost ones count as lost, too.
    assert.deepEqual(positions, [0, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30])
    assert.equal(cursor.takeGap(), 20)
  })

  test('a producer that was disconnected too long loses its request to the next one', async t => {
    const redis = await serveRedis(t)
    const { proxy, log: old } = await openProxied(t, redis)
    const [next, third] = [await openQuick(t, redis.url), await openQuick(t, redis.url)]
    const writer = await old.open(createOpening('r1'))
    const there = await collect(await requestAt(third))
    append(writer, 1, 5)
    await assertReads(there, 5)
    await proxy.setFault({ kind: 'silence' })
    assert.equal(await waitForEnd(there), "lost: ERROR the producer's broker was lost")
    const successor = await waitFor('the ids to be free', () => next.open(createOpening('r1')))
    append(writer, 6, 10)
    await proxy.setFault()
    await waitFor('the old one to know', () => writer.endedBy)
    assert.equal(writer.endedBy?.how, 'lost')
    append(writer, 11, 15)
    await writer.ready()
    append(successor, 1, 3)
    await assertReads(await collect(successor.request), 3)
    assert.equal(there.positions.at(-1), 5)
    assert.doesNotMatch(await readStream(redis, writer.request), /^(6|11)$/m)
  })

  test('a producer does not wait for readers of a lost broker', async t => {
    const redis = await serveRedis(t)
    const one = await openQuick(t, redis.url)
    const { proxy, log: cutOff } = await openProxied(t, redis)
    const writer = await one.open(createOpening('r1', { bytes: 4000, whenFull: 'wait' }))
    const slow = await (await requestAt(cutOff)).read({ onReadable() {} })
    slow.next()
    await appendUntilFull(writer, toBytes('x'.repeat(500)))
    await proxy.setFault({ kind: 'silence' })
    await writer.ready()
    assert.equal(writer.endedBy, undefined)
  })

  test('a process that was paused itself does not treat Redis as unavailable', async t => {
    const redis = await serveRedis(t)
    const log = await openQuick(t, redis.url)
    const changes: boolean[] = []
    log.onHealth(healthy => changes.push(healthy))
    const writer = await log.open(createOpening('r1'))
    const reader = await collect(writer.request)
    for (let pause = 0; pause < 3; pause += 1) {
      // Sent before the pause, so that a reply is pending during the pause.
      append(writer, pause * 2 + 1, pause * 2 + 1)
      await new Promise(setImmediate)
      await new Promise(setImmediate)
      standStill(2 * quickTimings.unavailableMs)
      append(writer, pause * 2 + 2, pause * 2 + 2)
      const other = await log.open(createOpening(`other-${pause}`))
      await other.end(success)
    }
    await writer.end(success)
    await assertReads(reader, 6)
    assert.equal(await waitForEnd(reader), 'completed')
    assert.deepEqual(changes, [])
  })

  test('a Redis that is out of memory is reported', async t => {
    const redis = await serveRedis(t)
    const log = await openQuick(t, redis.url)
    const writer = await log.open(createOpening('r1'))
    const ended = await log.open(createOpening('r2'))
    await redis.command('CONFIG', 'SET', 'maxmemory', '1')
    append(writer, 1, 1)
    await waitFor('the producer to know', () => writer.endedBy)
    assert.deepEqual(writer.endedBy, {
      how: 'lost',
      status: { code: 'ERROR', message: 'the log is out of memory' },
    })
    const full = { message: 'the log is out of memory' }
    await assert.rejects(log.open(createOpening('r3')), full)
    await assert.rejects(ended.end(success), full)
    await redis.command('CONFIG', 'SET', 'maxmemory', '0')
    await waitFor('room', () => log.open(createOpening('r4')).catch(() => undefined))
  })

  test('a request that cannot be read takes nothing of the budget', async t => {
    const redis = await serveRedis(t)
    const one = await openPatient(t, redis.url)
    const { proxy, log: two } = await openProxied(t, redis)
    const writer = await one.open(createOpening('r1'))
    append(writer, 1, 600)
    await writer.ready()
    const request = await requestAt(two)
    await waitFor('the entries to be stored', async () =>
      (await readStream(redis, request)).includes('\n600'),
    )
    for (const nth of [2, 3]) {
      await proxy.setFault({ kind: 'lose-reply', to: 'XRANGE', nth })
      await assert.rejects(request.read({ onReadable() {} }), { reason: 'unavailable' })
      await waitFor('health', () => two.healthy)
    }
    const { used, share, limit } = two.budget
    assert.deepEqual({ used, share }, { used: 0, share: limit })
  })

  test('a reader to which Redis gave nothing until the entries expired gets an error', async t => {
    const redis = await serveRedis(t)
    const [one, two] = [await openPatient(t, redis.url), await openPatient(t, redis.url)]
    const writer = await one.open(createOpening('r1', { keepMs: 50 }))
    const there = await collect(await requestAt(two))
    await redis.command('ACL', 'SETUSER', 'default', '-xread')
    await waitFor('a rejected read', async () =>
      (await redis.command('INFO', 'errorstats')).includes('NOPERM'),
    )
    append(writer, 1, 3)
    await writer.end(success)
    await waitFor('the end to be noticed', () => two.list()[0]?.ended !== false)
    await waitFor('the entries to expire', async () => (await readStream(redis, writer.request)) === '')
    await redis.command('ACL', 'SETUSER', 'default', '+xread')
    assert.equal(await waitForEnd(there), 'lost: ERROR the log has lost the request')
    await waitFor('the request to be forgotten', () => two.list().length === 0)
  })

  test('a request that begins while its broker shuts down is ended', async t => {
    const redis = await serveRedis(t)
    const { proxy, log } = await openProxied(t, redis)
    await proxy.setFault({ kind: 'latency', ms: 100 })
    const opening = log.open(createOpening('r1'))
    await new Promise(setImmediate)
    const closed = log.close()
    const writer = await opening
    await closed
    assert.deepEqual(writer.endedBy, shutdownEnd)
  })

  test('with random faults, no entry is lost silently, and none is read twice', async t => {
    const redis = await serveRedis(t)
    for (let seed = 1; seed <= seeds; seed += 1) await t.test(`seed ${seed}`, t => storm(t, redis, seed))
  })
})

/** Blocks the process, as if it were stopped or busy. */
function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

/** Makes random faults between both brokers and Redis while a producer appends and a consumer reads. */
async function storm(t: TestContext, redis: RedisServer, seed: number): Promise<void> {
  const random = seededRandom(seed)
  const [from, to] = [await openProxied(t, redis, seed), await openProxied(t, redis, seed + 1000)]
  const writer = await from.log.open(createOpening(`r${seed}`))
  const reader = await collect(await requestAt(to.log, `r${seed}`))
  let last = 0
  for (let round = 0; round < 4; round += 1) {
    const { proxy } = random() < 0.5 ? from : to
    await proxy.setFault(randomFault(random))
    append(writer, last + 1, last + 20)
    last += 20
    await waitFor('the fault to strike', () => proxy.struck() > 0 || writer.endedBy !== undefined, 200).catch(
      () => {},
    )
    await proxy.setFault()
    append(writer, last + 1, last + 5)
    last += 5
  }
  await writer.end(success).catch(error => assert.equal(error.reason, 'unavailable'))
  const how = await waitForEnd(reader)
  const { positions } = reader
  const gap = reader.cursor.takeGap()
  assert.deepEqual(
    positions,
    [...new Set(positions)].sort((a, b) => a - b),
  )
  if (how === 'completed') assert.equal(positions.length + gap, last + 1)
  else assert.match(how, /^lost: ERROR/)
}
