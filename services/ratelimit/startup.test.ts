import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { freePorts } from '../../test/support/free-ports.ts'
import { rateLimitFiles, userLimit } from '../../test/support/rate-limit-files.ts'
import { type RateLimitProcess, startRateLimit } from '../../test/support/rate-limit-process.ts'
import { startRedis } from '../../test/support/redis-server.ts'
import { requireProgram } from '../../test/support/require-server.ts'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import { waitFor } from '../../test/support/wait-for.ts'

const host = '127.0.0.1'

type Env = Readonly<Record<string, string>>

const withFiles = (): Env => ({ ...rateLimitFiles(userLimit('3/day')).env, DRAIN_DELAY: '0s' })

function onRedis(port: number): Env {
  return { ...withFiles(), KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL: `${host}:${port}` }
}

/** Starts a Redis and stops it until the test restarts it. */
async function startAbsentRedis(t: TestContext) {
  const redis = await startRedis()
  t.after(() => redis.stop())
  await redis.kill('SIGKILL')
  return redis
}

async function probe({ debugPort }: RateLimitProcess, path: string) {
  const response = await fetch(`http://${host}:${debugPort}${path}`)
  return { status: response.status, text: await response.text() }
}

function waitsFor(service: RateLimitProcess, reason: RegExp): Promise<true> {
  return waitFor(
    `the service waits: ${reason}`,
    async () => {
      const { status, text } = await probe(service, '/healthcheck')
      return status === 500 && reason.test(text)
    },
    30_000,
  )
}

/** Returns whether a server accepts connections on the port. */
function isOpen(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const client = connect({ host, port })
    client.once('connect', () => {
      client.destroy()
      resolve(true)
    })
    client.once('error', () => resolve(false))
  })
}

/** Connects in a loop until a server accepts the connection; returns the status of its first answer. */
async function firstAnswer(port: number, running: () => boolean): Promise<string> {
  while (running()) {
    const answer = await new Promise<string>(resolve => {
      const client = connect({ host, port })
      client.setTimeout(20_000, () => client.destroy())
      client.once('connect', () => client.write('GET /healthcheck HTTP/1.1\r\nhost: a\r\n\r\n'))
      client.once('data', data => {
        resolve(data.toString('latin1').split('\r\n')[0] ?? '')
        client.destroy()
      })
      client.once('error', (error: NodeJS.ErrnoException) => resolve(`${error.syscall} ${error.code}`))
      client.once('close', () => resolve('closed without an answer'))
    })
    if (answer !== 'connect ECONNREFUSED') return answer
  }
  return 'never opened'
}

for (const workers of ['1', '2']) {
  test(`the ports for calls open when the backend is up, WORKERS=${workers}`, async t => {
    if (!requireProgram(t, 'redis-server')) return
    const redis = await startAbsentRedis(t)
    const env = { ...onRedis(redis.port), WORKERS: workers, REDIS_POOL_SIZE: '20' }
    const service = await startRateLimit(t, env)
    let running = true
    t.after(() => {
      running = false
    })
    const answers = [service.httpPort, service.grpcPort].map(port => firstAnswer(port, () => running))
    await waitsFor(service, /waits for the backend|backend of its counters is away/)
    assert.equal((await probe(service, '/livez')).status, 200)
    assert.deepEqual([await isOpen(service.httpPort), await isOpen(service.grpcPort)], [false, false])
    await redis.restart()
    const [http = '', grpc = ''] = await Promise.all(answers)
    // A worker is healthy when all workers are.
    assert.match(http, workers === '1' ? /^HTTP\/1.1 200/ : /^HTTP\/1.1 (200|500)/)
    assert.doesNotMatch(grpc, /ECONNRESET/)
    await service.serves()
    assert.deepEqual(await probe(service, '/healthcheck'), { status: 200, text: 'OK' })
    assert.equal(await service.ask('shop', 'user', 'alice'), 200)
    assert.equal(service.program.output().split('name=REDIS_POOL_SIZE ').length, 2, 'it is logged once')
  })

  test(`SIGTERM ends a process that waits for its backend, WORKERS=${workers}`, async t => {
    const [nothing = 0] = await freePorts(1)
    const service = await startRateLimit(t, { ...onRedis(nothing), WORKERS: workers, DRAIN_DELAY: '1h' })
    await waitsFor(service, /ECONNREFUSED|starting|waits/)
    if (workers === '2') await service.program.said(/wait for readiness.*worker=1/, 30_000)
    assert.equal(await service.program.end('SIGTERM'), 0)
  })
}

test('the ports for calls open after the first configuration', async t => {
  const files = rateLimitFiles('domain: [')
  const env = { BACKEND_TYPE: 'memory', DRAIN_DELAY: '0s', ...files.env }
  const service = await startRateLimit(t, env)
  const forced = await startRateLimit(t, { ...env, FORCE_START_WITHOUT_INITIAL_CONFIG: 'true' })
  await waitsFor(service, /^waits for its configuration$/m)
  await forced.serves()
  assert.equal(await forced.ask('shop', 'user', 'alice'), 400)
  assert.equal(await isOpen(service.httpPort), false)
  files.write(userLimit('3/day'))
  await service.serves()
  assert.equal(await service.ask('shop', 'user', 'alice'), 200)
})

for (const [mode, status] of [
  ['allow', 200],
  ['deny', 429],
  ['local', 200],
] as const) {
  test(`with the failure mode ${mode} calls are accepted before the backend has answered`, async t => {
    if (!requireProgram(t, 'redis-server')) return
    const redis = await startAbsentRedis(t)
    const service = await startRateLimit(t, { ...onRedis(redis.port), BACKEND_FAILURE_MODE: mode })
    const ask = () => service.ask('shop', 'user', 'alice')
    assert.equal(await waitFor('the port', ask), status)
    assert.equal(await service.health(), 500, 'the service is not ready')
    await redis.restart()
    await service.serves()
  })
}

test('an address in use ends the process at once, also while the backend is away', async t => {
  const [nothing = 0] = await freePorts(1)
  const path = join(temporaryFolder('socket'), 'taken.sock')
  const server = createServer()
  t.after(() => server.close())
  await new Promise<void>(resolve => server.listen(path, resolve))
  const tcp = createServer()
  t.after(() => tcp.close())
  await new Promise<void>(resolve => tcp.listen(0, host, resolve))
  const { port } = tcp.address() as { port: number }
  const cases: readonly [Env, RegExp][] = [
    [{ GRPC_UDS: path }, /GRPC_UDS: .*taken.sock: another process listens on it/],
    [{ PORT: `${port}` }, /PORT: listen EADDRINUSE/],
    [{ PORT: `${port}`, WORKERS: '2' }, /PORT: listen EADDRINUSE/],
  ]
  await Promise.all(
    cases.map(async ([env, expected]) => {
      const { program } = await startRateLimit(t, { ...onRedis(nothing), ...env })
      assert.equal(await program.exited(), 1)
      assert.match(program.output(), expected)
    }),
  )
})

test('a unix socket for calls opens when the backend is up, and replaces a stale one', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const redis = await startAbsentRedis(t)
  const path = join(temporaryFolder('socket'), 'calls.sock')
  const env = { ...onRedis(redis.port), GRPC_UDS: path }
  const service = await startRateLimit(t, env)
  await waitsFor(service, /backend/)
  assert.equal(existsSync(path), false)
  await redis.restart()
  await service.serves()
  await service.program.end('SIGKILL')
  assert.ok(existsSync(path))
  const next = await startRateLimit(t, env)
  await next.serves()
})

test('a process that replaces a killed one gets its ports at once', async t => {
  const env = { ...withFiles(), BACKEND_TYPE: 'memory' }
  const first = await startRateLimit(t, env)
  await first.serves()
  const clients = [first.httpPort, first.grpcPort].map(port => connect({ host, port }))
  for (const client of clients) client.on('error', () => {})
  await waitFor('connections', () => clients.every(client => client.readyState === 'open'))
  await first.program.end('SIGKILL')
  const ports = {
    PORT: `${first.httpPort}`,
    GRPC_PORT: `${first.grpcPort}`,
    DEBUG_PORT: `${first.debugPort}`,
  }
  const next = await startRateLimit(t, { ...env, ...ports })
  await next.program.said('msg="start service"')
  for (const client of clients) client.destroy()
})
