import assert from 'node:assert/strict'
import { createServer, type Socket } from 'node:net'
import { after, before, describe, type TestContext, test } from 'node:test'
import { type RedisServer, startRedis } from '../../../../../test/support/redis-server.ts'
import { missingProgram } from '../../../../../test/support/require-server.ts'
import { waitFor } from '../../../../../test/support/wait-for.ts'
import { ask, connected, connectTo, waitForProblem } from '../../testing/connect-to-redis.ts'

const skip = missingProgram('redis-server')

async function startFor(t: TestContext, args: readonly string[] = []): Promise<RedisServer> {
  const redis = await startRedis(args)
  t.after(() => redis.stop())
  return redis
}

describe('a connection to Redis', { skip }, () => {
  let redis: RedisServer
  before(async () => {
    redis = await startRedis(['--maxclients', '20'])
  })
  after(() => redis.stop())

  const endpoints: readonly [
    string,
    (server: RedisServer) => { path: string } | { host: string; port: number },
  ][] = [
    ['a unix socket', ({ socketPath }) => ({ path: socketPath })],
    ['an address', ({ port }) => ({ host: '127.0.0.1', port })],
    ['a name with several addresses', ({ port }) => ({ host: 'localhost', port })],
  ]
  for (const [name, endpointOf] of endpoints) {
    test(`replies come in the order of the requests, over ${name}`, async t => {
      await redis.command('FLUSHALL')
      const connection = await connected(t, { endpoint: endpointOf(redis) })
      const writes = ['SET a x', 'INCRBY b 5', 'GET a', 'GET none', 'INCRBY a 1'].map(line =>
        ask(connection, line),
      )
      const together = ask(connection, 'INCRBY b 1', 'GET a', 'NO_SUCH')
      const outcomes = await Promise.all([...writes, together])
      assert.deepEqual(
        outcomes.map(({ replies }) => replies),
        [
          ['OK'],
          [5],
          ['x'],
          [null],
          [{ error: 'ERR value is not an integer or out of range' }],
          [6, 'x', { error: "ERR unknown command 'NO_SUCH', with args beginning with: " }],
        ],
      )
      assert.ok(connection.healthy)
    })
  }

  test('a write without requests does not take the reply of the next one', async t => {
    await redis.command('FLUSHALL')
    const connection = await connected(t, { endpoint: { path: redis.socketPath } })
    const outcomes = await Promise.all([
      ask(connection),
      ask(connection, 'INCRBY a 5'),
      ask(connection, 'GET a'),
    ])
    assert.deepEqual(
      outcomes.map(({ replies }) => replies),
      [[], [5], ['5']],
    )
  })

  test('the greeting is AUTH, SELECT and PING, and nothing else', async t => {
    await redis.command('CONFIG', 'RESETSTAT')
    await redis.command('ACL', 'SETUSER', 'someone', 'on', '>secret', '~*', '+@all')
    const endpoint = { path: redis.socketPath }
    await connected(t, { endpoint, username: 'someone', password: 'secret', database: 3 })
    const stats = await redis.command('INFO', 'commandstats')
    const names = [...stats.matchAll(/cmdstat_([^:]+):/g)].map(([, name]) => name)
    assert.deepEqual(names.sort(), ['acl|setuser', 'auth', 'config|resetstat', 'ping', 'select'])
  })

  test('with masterOnly, a replica is rejected until it becomes a master', async t => {
    await redis.command('REPLICAOF', '127.0.0.1', '1')
    t.after(() => redis.command('REPLICAOF', 'NO', 'ONE'))
    const connection = connectTo(t, { endpoint: { path: redis.socketPath }, masterOnly: true })
    await waitForProblem(t, connection, /^the server is a replica and not the master$/)
    assert.equal(connection.healthy, false)
    await redis.command('REPLICAOF', 'NO', 'ONE')
    await waitFor('it to be used', () => connection.healthy)
    assert.deepEqual((await ask(connection, 'GET none')).replies, [null])
  })

  test('after a move nothing is sent to the old address', async t => {
    const other = await startFor(t)
    const connection = connectTo(t, {})
    assert.deepEqual((await ask(connection, 'INCRBY a 1')).replies, [])
    connection.moveTo({ path: other.socketPath })
    await waitFor('the first place', () => connection.healthy)
    await other.kill('SIGSTOP')
    const lost = ask(connection, 'INCRBY moved 1')
    connection.moveTo({ path: redis.socketPath })
    assert.deepEqual(await lost, { replies: [], problem: 'Redis is at another address now' })
    await waitFor('the second place', () => connection.healthy)
    assert.deepEqual((await ask(connection, 'INCRBY moved 1')).replies, [1])
    connection.moveTo({ path: redis.socketPath })
    assert.equal(connection.healthy, true)
  })

  test('values longer than one read, and writes longer than the kernel takes at once', async t => {
    const connection = await connected(t, { endpoint: { path: redis.socketPath } })
    const long = 'x€'.repeat(200_000)
    const lines = ['SET long', 'GET long', 'INCRBY n 1']
    const first = ask(connection, `${lines[0]} ${long}`, ...lines.slice(1))
    // The first write is still being sent, so the second one must use other memory.
    const second = ask(connection, `SET long y${long}`, 'GET long')
    assert.deepEqual((await first).replies, ['OK', long, 1])
    assert.deepEqual((await second).replies, ['OK', `y${long}`])
  })

  test('too many clients: calls get the error of Redis, and it reconnects until there is room', async t => {
    await redis.command('CONFIG', 'SET', 'maxclients', '2')
    t.after(() => redis.command('CONFIG', 'SET', 'maxclients', '20'))
    const endpoint = { path: redis.socketPath }
    const others = [await connected(t, { endpoint }), await connected(t, { endpoint })]
    const connection = connectTo(t, { endpoint })
    await waitForProblem(t, connection, /^ERR max number of clients reached$/)
    await Promise.all(others.map(other => other.close()))
    await waitFor('Redis to answer', () => connection.healthy)
  })

  test('close: waiting and later requests get the reason', async t => {
    const connection = await connected(t, { endpoint: { path: redis.socketPath } })
    const health: boolean[] = []
    connection.onHealth(healthy => health.push(healthy))
    const waits = ask(connection, 'PING')
    await connection.close()
    const outcome = { replies: [], problem: 'the connection to Redis is closed' }
    assert.deepEqual(await waits, outcome)
    assert.deepEqual(await ask(connection, 'PING'), outcome)
    assert.deepEqual(health, [false])
    await connection.close()
  })
})

describe('a lost connection', { skip }, () => {
  test('owed replies are missing, nothing is sent again, and it reconnects', async t => {
    const redis = await startFor(t)
    const connection = await connected(t, { endpoint: { path: redis.socketPath } })
    const health: boolean[] = []
    connection.onHealth(healthy => health.push(healthy))
    await redis.kill('SIGSTOP')
    const outcomes = ['INCRBY a 1', 'INCRBY a 1'].map(line => ask(connection, line))
    await redis.kill('SIGKILL')
    for (const { replies, problem } of await Promise.all(outcomes)) {
      assert.deepEqual(replies, [])
      assert.match(problem ?? '', /^the connection to Redis was lost/)
    }
    assert.equal(connection.healthy, false)
    await waitForProblem(t, connection, /ECONNREFUSED|ENOENT/)
    assert.match((await ask(connection, 'INCRBY a 1')).problem ?? '', /ECONNREFUSED|ENOENT/)
    await redis.restart()
    await waitFor('Redis to answer', () => connection.healthy)
    assert.deepEqual(await ask(connection, 'GET a'), { replies: [null], problem: undefined })
    assert.deepEqual(health, [false, true])
  })

  test('a connection that owes replies and sends nothing is closed at the timeout', async t => {
    const redis = await startFor(t)
    const connection = await connected(t, { endpoint: { path: redis.socketPath }, timeoutMs: 60 })
    // No reply is due.
    await new Promise(resolve => setTimeout(resolve, 100))
    assert.ok(connection.healthy)
    await redis.kill('SIGSTOP')
    const startMs = performance.now()
    const { problem = '' } = await ask(connection, 'PING')
    assert.match(problem, /owed replies and sent nothing for 60 ms/)
    assert.ok(performance.now() - startMs >= 60)
    // The kernel still accepts connections, but no greeting arrives.
    await waitFor('another try', () => connection.problem === problem)
    assert.equal(connection.healthy, false)
    await redis.kill('SIGCONT')
    await waitFor('Redis to answer', () => connection.healthy)
  })
})

describe('a rejected greeting', { skip }, () => {
  test('the password is removed from the error of a server that does not support AUTH', async t => {
    const redis = await startFor(t, ['--rename-command', 'AUTH', ''])
    const endpoint = { path: redis.socketPath }
    const long = connectTo(t, { endpoint, password: 'hunter2'.repeat(100) })
    const user = connectTo(t, { endpoint, username: 'someone', password: 'hunter2' })
    for (const connection of [long, user]) {
      await waitForProblem(t, connection, /^ERR unknown command 'AUTH'$/)
      assert.equal(connection.healthy, false)
    }
  })

  test('a password that Redis does not need is an error, as in Redis', async t => {
    const redis = await startFor(t)
    const connection = connectTo(t, { endpoint: { path: redis.socketPath }, password: 'hunter2' })
    await waitForProblem(t, connection, /^ERR AUTH <password> called without any password configured/)
  })

  test('a user that may not PING', async t => {
    const redis = await startFor(t)
    await redis.command('ACL', 'SETUSER', 'mute', 'on', '>hunter2', '~*', '+get')
    const endpoint = { path: redis.socketPath }
    const connection = connectTo(t, { endpoint, username: 'mute', password: 'hunter2' })
    await waitForProblem(t, connection, /^NOPERM /)
  })
})

async function startServer(
  t: TestContext,
  talk: (socket: Socket) => void,
): Promise<{ host: string; port: number }> {
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {})
    talk(socket)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { host: '127.0.0.1', port: (server.address() as { port: number }).port }
}

test('a slow server that keeps answering is not disconnected', async t => {
  const requests = 12
  const endpoint = await startServer(t, socket => {
    socket.once('data', () => {
      socket.write('+PONG\r\n')
      // All replies together take longer than the timeout, but each of them takes much less.
      socket.once('data', () => {
        const timer = setInterval(() => socket.write('+OK\r\n'), 100)
        socket.once('close', () => clearInterval(timer))
      })
    })
  })
  const connection = await connected(t, { endpoint, timeoutMs: 1_000 })
  const outcome = await ask(connection, ...Array(requests).fill('DO'))
  assert.deepEqual(outcome, { replies: Array(requests).fill('OK'), problem: undefined })
})

describe('a server that is not Redis', () => {
  const table: readonly [string, string, RegExp][] = [
    [
      'answers in HTTP',
      'HTTP/1.1 400 Bad Request\r\n\r\n',
      /malformed reply from Redis: a reply of unknown type/,
    ],
    ['answers PING with something else', '+PUNG\r\n', /the reply to PING is not PONG/],
    ['sends more replies than requests', '+PONG\r\n:1\r\n', /an unexpected reply/],
    ['rejects once more than it was asked', '+PONG\r\n-ERR enough\r\n', /^ERR enough$/],
  ]
  for (const [name, text, words] of table) {
    test(`one that ${name}`, async t => {
      const connection = connectTo(t, {
        endpoint: await startServer(t, socket => socket.on('data', () => socket.write(text))),
      })
      await waitForProblem(t, connection, words)
    })
  }
})
