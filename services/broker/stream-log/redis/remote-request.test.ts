import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { startRedis } from '../../../../test/support/redis-server.ts'
import { missingProgram } from '../../../../test/support/require-server.ts'
import { ByteBudget } from '../byte-budget.ts'
import { systemRepeat } from '../repeat.ts'
import { type RequestEnd, unreadableRejection } from '../stream-log.ts'
import { createOpening } from '../testing/log-under-test.ts'
import { openRedisLog } from '../testing/redis-log-under-test.ts'
import { RedisConnection } from './connection.ts'
import { type DirectoryEntry, decodeEntry } from './directory-entry.ts'
import { redisKeys } from './keys.ts'
import { PositionReports } from './position-reports.ts'
import { ReadLoop } from './read-loop.ts'
import { RemoteRequest, type RemoteRequestContext } from './remote-request.ts'
import { defaultTimings, type RedisLogSetup } from './setup.ts'
import { SharedRequest } from './shared-request.ts'

const away: RequestEnd = { how: 'lost', status: { code: 'ERROR', message: 'the log is away' } }
const silent = { onReadable() {} }

/** Begins a request at one broker, and opens the parts with which another broker reads it. */
async function startRequest(t: TestContext) {
  const redis = await startRedis()
  t.after(() => redis.stop())
  const connect = async () => {
    const connection = new RedisConnection({ url: redis.url, stallMs: 1000, random: Math.random })
    t.after(() => connection.close())
    await connection.whenReady()
    return connection
  }
  const writer = await (await openRedisLog(t, redis.url)).open(createOpening('r1'))
  const setup: RedisLogSetup = {
    podId: 'reader',
    keys: redisKeys('tollway'),
    commands: await connect(),
    clock: systemClock,
    repeat: systemRepeat,
    timings: defaultTimings,
    budget: new ByteBudget(1_000_000),
  }
  const loop = new ReadLoop(setup, await connect())
  t.after(() => loop.close())
  const context: RemoteRequestContext = { setup, loop, reports: new PositionReports(setup), apply() {} }
  const value = await setup.commands.call('HGET', setup.keys.requests, writer.request.key)
  return { writer, context, entry: decodeEntry(writer.request.key, String(value)) as DirectoryEntry }
}

describe('a request of another broker', { skip: missingProgram('redis-server') }, () => {
  test('a reader that waits for the first entries is rejected as unavailable when Redis is away', async t => {
    const { context, entry } = await startRequest(t)
    const request = new SharedRequest(context, entry)
    const reading = request.read(silent)
    request.closeRemote()
    await assert.rejects(reading, { reason: 'unavailable' })
    const cursor = await request.read(silent)
    assert.equal(cursor.next()?.position, 0)
    request.closeRemote()
    assert.deepEqual(cursor.end, away)
  })

  test('a reader that waits for the first entries of a forgotten request is rejected as expired', async t => {
    const { context, entry } = await startRequest(t)
    const request = new SharedRequest(context, entry)
    const reading = request.read(silent)
    request.forget()
    await assert.rejects(reading, { reason: 'expired' })
  })

  test('a request that is closed while it is handed over is unavailable, and not ended', async t => {
    const { context, entry } = await startRequest(t)
    const remote = new RemoteRequest(context, entry)
    await remote.read(silent)
    const handedOver = remote.handOver()
    remote.close(away, unreadableRejection())
    await assert.rejects(handedOver, { reason: 'unavailable' })
    assert.equal(context.setup.budget.used, 0)
  })

  test('a request that ends while it is handed over is rejected with its end', async t => {
    const { writer, context, entry } = await startRequest(t)
    const remote = new RemoteRequest(context, entry)
    const cursor = await remote.read(silent)
    await writer.end({ how: 'refused', status: { code: 'ERROR', message: 'the order is wrong' } })
    const rejection = { reason: 'ended', message: 'the request has ended: the order is wrong' }
    await assert.rejects(remote.handOver(), rejection)
    while (cursor.next());
    assert.equal(cursor.end?.how, 'refused')
  })
})
