import assert from 'node:assert/strict'
import { type AddressInfo, connect, createServer } from 'node:net'
import { after, before, describe, type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { makeCertificate } from '../../../../test/support/certificate.ts'
import { freePorts } from '../../../../test/support/free-ports.ts'
import { type RedisServer, startRedis } from '../../../../test/support/redis-server.ts'
import { missingProgram } from '../../../../test/support/require-server.ts'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { systemRepeat } from '../repeat.ts'
import { type LogRejection, logEntryOverheadBytes, type StreamLog } from '../stream-log.ts'
import { collect, createOpening, toBytes } from '../testing/log-under-test.ts'
import { openRedisLog, patientTimings } from '../testing/redis-log-under-test.ts'
import { streamLogContract } from '../testing/stream-log.contract.ts'
import { createRedisLog } from './redis-log.ts'

const skip = missingProgram('redis-server')
const success = { how: 'completed' } as const

const firstRequest = (log: StreamLog) => waitFor('a request', () => log.list()[0])

describe('the log in Redis', { skip }, () => {
  let redis: RedisServer
  before(async () => {
    redis = await startRedis()
  })
  after(() => redis.stop())

  streamLogContract('Redis with two brokers', async (t, options) => {
    await redis.command('FLUSHALL')
    return {
      producers: await openRedisLog(t, redis.url, options),
      consumers: await openRedisLog(t, redis.url, options),
    }
  })

  streamLogContract('Redis with one broker', async (t, options) => {
    await redis.command('FLUSHALL')
    const log = await openRedisLog(t, redis.socketPath, options)
    return { producers: log, consumers: log }
  })

  const keys = async () => (await redis.command('KEYS', '*')).split('\n').filter(key => key !== '')

  test('ended requests are removed, and remaining keys have an expiry', async t => {
    await redis.command('FLUSHALL')
    const timings = { ...patientTimings, directoryMs: 50 }
    const [one, two] = [
      await openRedisLog(t, redis.url, { timings }),
      await openRedisLog(t, redis.url, { timings }),
    ]
    const ended = await one.open(createOpening('r1', { keepMs: 20, whenFull: 'wait' }))
    const reader = await collect(await firstRequest(two))
    for (let count = 0; count < 50; count += 1) ended.append(toBytes(`${count}`))
    await ended.end(success)
    await waitFor('the end', () => reader.cursor.end)
    reader.cursor.close()
    await one.open(createOpening('r2', { keepMs: 20 }))
    await one.open(createOpening('r3', { keepMs: 20 }))
    await two.interrupt('s', 'r2')
    for (const key of await keys()) assert.notEqual(await redis.command('PTTL', key), '-1', `${key} stays`)
    await one.close()
    const left = async () => (await keys()).filter(key => !/:(epoch|news|interrupted:.*)$/.test(key))
    await waitFor('the directory to be empty', async () =>
      /:heartbeat:[^ ]+ [^ ]+:inbox:[^ ]+$/.test((await left()).sort().join(' ')),
    )
    await two.close()
    assert.deepEqual(await left(), [])
    for (const key of await keys()) assert.notEqual(await redis.command('PTTL', key), '-1', `${key} stays`)
  })

  test('Redis stores at most a sixteenth more of a request than its limit', async t => {
    await redis.command('FLUSHALL')
    const log = await openRedisLog(t, redis.url)
    const bytes = 64_000
    const writer = await log.open(createOpening('r1', { bytes }))
    const entries = `{tollway:broker}:entries:${writer.request.key}`
    let most = 0
    for (let count = 1; count <= 500; count += 1) {
      if (!writer.append(toBytes('x'.repeat(1000 - logEntryOverheadBytes)))) await writer.ready()
      if (count % 25 !== 0) continue
      most = Math.max(most, Number(await redis.command('XLEN', entries)))
    }
    assert.ok(most >= 60, `${most} entries were the most`)
    // The limit of the ring, and the entries that Redis may have more, with those of the batch in flight.
    assert.ok(most <= 64 + 4 + 10, `${most} entries were the most`)
    await writer.end(success)
    const usage = Number(await redis.command('MEMORY', 'USAGE', entries))
    assert.ok(usage < 1.5 * bytes, `Redis uses ${usage} bytes`)
  })

  test('Redis stores only a little more of all requests than the limit of a broker', async t => {
    await redis.command('FLUSHALL')
    const maxKeptBytes = 200_000
    const log = await openRedisLog(t, redis.url, { maxKeptBytes })
    const usedBytes = async () => {
      const names = (await keys()).filter(key => /:entries:/.test(key))
      const sizes = names.map(name => redis.command('MEMORY', 'USAGE', name, 'SAMPLES', '0'))
      return (await Promise.all(sizes)).reduce((sum, size) => sum + Number(size), 0)
    }
    const push = async (requestId: string) => {
      const writer = await log.open(createOpening(requestId))
      for (let count = 0; count < 100; count += 1) {
        if (!writer.append(toBytes('x'.repeat(1000)))) await writer.ready()
      }
      return writer
    }
    const running = await Promise.all(['r1', 'r2', 'r3', 'r4', 'r5', 'r6', 'r7', 'r8'].map(push))
    await waitFor('Redis to hold little', async () => (await usedBytes()) < 1.3 * maxKeptBytes)
    for (const writer of running) await writer.end(success)
    for (const requestId of ['s1', 's2', 's3', 's4']) await (await push(requestId)).end(success)
    await waitFor('Redis to hold little', async () => (await usedBytes()) < 1.3 * maxKeptBytes)
  })

  test('a consumer continues at another broker at its position', async t => {
    await redis.command('FLUSHALL')
    const [one, two, three] = [
      await openRedisLog(t, redis.url),
      await openRedisLog(t, redis.url),
      await openRedisLog(t, redis.url),
    ]
    const writer = await one.open(createOpening('r1'))
    for (const text of ['a', 'b', 'c', 'd']) writer.append(toBytes(text))
    const before = await collect(await firstRequest(two))
    await waitFor('all', () => before.texts.length === 5)
    before.cursor.close()
    const cursor = await (await firstRequest(three)).read({ onReadable() {} })
    await waitFor('all', () => cursor.behind.entries === 4)
    cursor.seek(3)
    assert.deepEqual([cursor.next()?.position, cursor.next()?.position, cursor.next()], [3, 4, undefined])
    assert.equal(cursor.takeGap(), 0)
  })

  test('a log reports changes at once, not by polling', async t => {
    await redis.command('FLUSHALL')
    const never = 3_600_000
    const timings = { heartbeatMs: never, directoryMs: never, positionsMs: never, stallMs: never }
    const one = await openRedisLog(t, redis.url, { timings })
    const two = await openRedisLog(t, redis.url, { timings })
    for (const requestId of ['r1', 'r2', 'r3']) {
      const writer = await one.open(createOpening(requestId, { bytes: 4000, whenFull: 'wait' }))
      const request = await waitFor('a request', () =>
        two.list().find(({ ids }) => ids.requestId === requestId),
      )
      const reader = await collect(request)
      for (let count = 0; count < 50; count += 1) {
        if (!writer.append(toBytes('x'.repeat(1000)))) await writer.ready()
      }
      await waitFor('all', () => reader.texts.length === 51)
      await writer.end(success)
      await waitFor('the end', () => reader.cursor.end)
      assert.equal(reader.cursor.takeGap(), 0)
    }
  })

  test('all keys are in one slot, so that one node of a Redis Cluster serves them', async t => {
    const [busPort] = await freePorts(1)
    const node = await startRedis(['--cluster-enabled', 'yes', '--cluster-port', `${busPort}`])
    t.after(() => node.stop())
    await node.command('CLUSTER', 'ADDSLOTSRANGE', '0', '16383')
    await waitFor('the cluster', async () =>
      (await node.command('CLUSTER', 'INFO')).includes('cluster_state:ok'),
    )
    const [one, two] = [await openRedisLog(t, node.url), await openRedisLog(t, node.url)]
    const writers = [
      await one.open(createOpening('r1')),
      await one.open(createOpening('r2', { whenFull: 'wait' })),
    ]
    await waitFor('both', () => two.list().length === 2)
    const readers = await Promise.all(two.list().map(request => collect(request)))
    for (const writer of writers) writer.append(toBytes('a'))
    await writers[0]?.end(success)
    await waitFor('the entries', () => readers.every(({ texts }) => texts.length === 2))
    assert.equal(await two.interrupt('s', ''), 1)
    await waitFor('the ends', () => readers.every(({ cursor }) => cursor.end))
  })

  test('a log connects to Redis over TLS, with a password', async t => {
    const folder = temporaryFolder('tollway-log')
    const { certFile, keyFile, cert } = await makeCertificate(folder, 'redis', 'IP:127.0.0.1')
    const [port = 0] = await freePorts(1)
    const secure = await startRedis([
      ...['--tls-port', `${port}`, '--tls-cert-file', certFile, '--tls-key-file', keyFile],
      ...['--tls-ca-cert-file', certFile, '--tls-auth-clients', 'no', '--requirepass', 'p@ss'],
    ])
    t.after(() => secure.stop())
    const [one, two] = [
      await openRedisLog(t, `rediss://:p%40ss@127.0.0.1:${port}`, { tls: { ca: cert } }),
      await openRedisLog(t, `redis://:p%40ss@127.0.0.1:${secure.port}`),
    ]
    const writer = await one.open(createOpening('r1'))
    writer.append(toBytes('a'))
    const reader = await collect(await firstRequest(two))
    await waitFor('the entry', () => reader.texts.length === 2)
    const options = { clock: systemClock, repeat: systemRepeat, random: Math.random }
    const wrong = createRedisLog({
      ...options,
      url: `redis://:secret@127.0.0.1:${secure.port}`,
      podId: 'wrong',
    })
    t.after(() => wrong.close())
    await waitFor('the password to be rejected', () => /WRONGPASS/.test(wrong.problem))
    assert.doesNotMatch(wrong.problem, /secret/)
    assert.equal(wrong.healthy, false)
  })

  test('a Redis before 6.2 is unhealthy with the required version; pushes are rejected', async t => {
    await redis.command('FLUSHALL')
    // An older version of Redis reads the unknown option as an id. This Redis does the same with a misspelt
    // option.
    const proxy = await startRenamingProxy(t, redis.port, 'NOMKSTREAM', 'NOMKSTREAX')
    const options = { clock: systemClock, repeat: systemRepeat, random: Math.random }
    const log = createRedisLog({ url: `redis://127.0.0.1:${proxy}`, podId: 'old', ...options })
    t.after(() => log.close())
    const needed = /^Redis 6\.2 or later is needed .*, this one is \d+\.\d+/
    await waitFor('the problem', () => needed.test(log.problem))
    assert.equal(log.healthy, false)
    await assert.rejects(log.open(createOpening('r1')), (error: LogRejection) => {
      assert.match(error.message, needed)
      return error.reason === 'unavailable'
    })
    assert.deepEqual(await keys().then(names => names.filter(name => /probe|entries/.test(name))), [])
  })

  test('an invalid address is rejected, and its error does not contain it', () => {
    const options = { podId: 'p', clock: systemClock, repeat: systemRepeat, random: Math.random }
    for (const url of ['', 'localhost', 'http://u:secret@host', 'redis://', 'secret']) {
      assert.throws(
        () => createRedisLog({ ...options, url }),
        (error: Error) => /must be redis:/.test(error.message) && !error.message.includes('secret'),
      )
    }
  })
})

/**
 * Starts a proxy to Redis that replaces a word in commands by another one of the same length. Resolves with
 * its port.
 */
async function startRenamingProxy(t: TestContext, port: number, from: string, to: string): Promise<number> {
  const server = createServer(client => {
    const upstream = connect(port, '127.0.0.1')
    client.on('data', bytes => upstream.write(bytes.toString('latin1').replaceAll(from, to), 'latin1'))
    upstream.pipe(client)
    client.on('error', () => upstream.destroy())
    upstream.on('error', () => client.destroy())
    client.on('close', () => upstream.destroy())
  })
  t.after(() => server.close())
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}
