import assert from 'node:assert/strict'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { type TestContext, test } from 'node:test'
import { healthCheckPath, healthClientCodec, servingStatus } from '@tollway/grpc/server/health.ts'
import { RateLimitResponse_Code as Code } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { freePorts } from '../../../test/support/free-ports.ts'
import { encodeDomain, encodeResponse, startLimitFeed } from '../../../test/support/limit-feed.ts'
import { rateLimitFiles, userLimit } from '../../../test/support/rate-limit-files.ts'
import { callRateLimit, startRateLimit } from '../../../test/support/rate-limit-process.ts'
import { startRedis } from '../../../test/support/redis-server.ts'
import { requireProgram } from '../../../test/support/require-server.ts'
import { childrenOf } from '../../../test/support/running-processes.ts'
import { waitFor } from '../../../test/support/wait-for.ts'

type Settings = Readonly<Record<string, string>>

function configuration(limit: number): Settings {
  return { ...rateLimitFiles(userLimit(`${limit}/day`)).env, WORKERS: '2', DRAIN_DELAY: '0s' }
}

/** Starts a service of two workers with a Redis of its own, and waits until both are healthy. */
async function startTwo(t: TestContext, limit: number, more: Settings = {}) {
  const redis = await startRedis()
  t.after(() => redis.stop())
  const service = await startRateLimit(t, {
    ...configuration(limit),
    KVSTORE_SOCKET_TYPE: 'tcp',
    KVSTORE_URL: `127.0.0.1:${redis.port}`,
    BACKEND_DEADLINE: '5s',
    ...more,
  })
  await service.serves()
  return { ...service, redis }
}

const ask = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }
const hits = 'ratelimit.service.rate_limit.shop.user.total_hits'
const requests = 'ratelimit_server.ShouldRateLimit.total_requests'

/** Returns the number of connections from callers that a process has on the port. */
function connectionsOf(pid: number, port: number): number {
  const established = '01'
  const hexPort = port.toString(16).toUpperCase().padStart(4, '0')
  const sockets = new Set<string>()
  for (const line of readFileSync(`/proc/${pid}/net/tcp`, 'utf8').split('\n')) {
    const columns = line.trim().split(/\s+/)
    if (columns[3] === established && columns[1]?.endsWith(`:${hexPort}`))
      sockets.add(`socket:[${columns[9]}]`)
  }
  const links = readdirSync(`/proc/${pid}/fd`).map(fd => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`)
    } catch {
      return ''
    }
  })
  return links.filter(link => sockets.has(link)).length
}

/** So many connections that each worker has one: the chance that all go to one worker is 1 in 2^23. */
const connections = 24

function connect(t: TestContext, port: number) {
  return Array.from({ length: connections }, () => callRateLimit(t, port))
}

test('both workers accept calls, admit exactly the limit together, and sum their statistics', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const limit = 100
  const [metricsPort = 0] = await freePorts(1)
  const service = await startTwo(t, limit, {
    USE_PULLSTATS: 'true',
    PULLSTATS_ADDR: `127.0.0.1:${metricsPort}`,
  })
  const callers = connect(t, service.grpcPort)
  const rounds = 10
  const answers = await Promise.all(
    callers.flatMap(({ shouldRateLimit }) => Array.from({ length: rounds }, () => shouldRateLimit(ask))),
  )
  const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
  const stats = await service.stats()
  const workers = childrenOf(service.program.pid)
  assert.equal(workers.length, 2)
  for (const pid of workers) assert.ok(connectionsOf(pid, service.grpcPort) > 0, 'a worker has no connection')
  assert.equal(answers.filter(({ overallCode }) => overallCode === Code.OK).length, limit)
  assert.match(metrics, new RegExp(`^ratelimit_service_total_requests.* ${answers.length}$`, 'm'))
  assert.equal(stats[requests], answers.length)
  assert.equal(stats[hits], answers.length)
  assert.equal(stats['ratelimit.service.rate_limit.shop.user.over_limit'], answers.length - limit)
  const rules = await (await fetch(`http://127.0.0.1:${service.debugPort}/rlconfig`)).text()
  assert.match(rules, /^shop\.user: unit=DAY requests_per_unit=100/)
  assert.equal(await service.program.end('SIGTERM'), 0)
})

test('values that are no addresses count once in each rule with networks, also after a change', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const feed = await startLimitFeed()
  t.after(() => feed.stop())
  const load = (requestsPerUnit: number) => {
    const rateLimit = { unit: RateLimitUnit.DAY, requestsPerUnit }
    const descriptors = ['10.0.0.0/8', '192.0.2.0/24'].map((network, index) => ({
      ...{ key: 'address', value: `${index}`, rateLimit, match: { cidr: [network] } },
    }))
    feed.send(
      encodeResponse(`${requestsPerUnit}`, [encodeDomain({ name: 'n', domain: 'nets', descriptors })]),
    )
  }
  load(10)
  const service = await startTwo(t, 1, { ...feed.settings, RUNTIME_ROOT: '' })
  const callers = connect(t, service.grpcPort)
  const entries = [{ key: 'address', value: 'unknown' }]
  const inForce = (limit: number) =>
    waitFor('the limit in all workers', async () => {
      const answers = feed.requests.filter(({ versionInfo }) => versionInfo === `${limit}`)
      return answers.length >= 2
    })
  for (const [index, limit] of [10, 20].entries()) {
    if (limit === 20) load(limit)
    await inForce(limit)
    const calls = callers.map(({ shouldRateLimit }) =>
      shouldRateLimit({ domain: 'nets', descriptors: [{ entries }] }),
    )
    await Promise.all(calls)
    const stats = await service.stats()
    for (const name of ['0', '1']) {
      const counted = stats[`ratelimit.service.rate_limit.nets.address_${name}.not_an_address`]
      assert.equal(counted, (index + 1) * connections)
    }
  }
})

test('every connection reports the health of the whole service', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const service = await startTwo(t, 1, { KVSTORE_HEALTH_CHECK_ACTIVE_CONNECTION: 'true' })
  const callers = connect(t, service.grpcPort)
  const told = async () => {
    const codec = healthClientCodec
    const each = callers.map(({ client }) => client.unary(healthCheckPath, codec, { service: 'ratelimit' }))
    return new Set((await Promise.all(each)).map(({ status }) => status))
  }
  await waitFor('every connection to serve', async () => {
    const found = await told()
    return found.size === 1 && found.has(servingStatus.SERVING)
  })
  await service.redis.kill('SIGKILL')
  await waitFor('no connection to serve', async () => {
    const found = await told()
    return found.size === 1 && found.has(servingStatus.NOT_SERVING)
  })
  assert.equal(await service.health(), 500)
  await service.redis.restart()
  await service.serves()
})

test('a worker that is killed under load loses only its own calls, and is replaced', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const service = await startTwo(t, 1_000_000)
  const callers = connect(t, service.grpcPort)
  let answered = 0
  let failed = 0
  let loading = true
  let ill = 0
  const load = callers.map(async ({ shouldRateLimit }) => {
    while (loading) {
      try {
        await shouldRateLimit(ask)
        answered += 1
      } catch {
        failed += 1
      }
    }
  })
  const watch = (async () => {
    while (loading) if ((await service.health().catch(() => 0)) === 500) ill += 1
  })()
  await waitFor('calls', () => answered > 500)
  const before = childrenOf(service.program.pid)
  const [victim = 0, other = 0] = before
  const own = connectionsOf(victim, service.grpcPort)
  process.kill(victim, 'SIGKILL')
  const taken = answered
  await waitFor('calls that the other answers', () => answered > taken + 500)
  await waitFor('another in its place', () => {
    const now = childrenOf(service.program.pid)
    return now.length === 2 && !now.includes(victim) && now.includes(other)
  })
  await waitFor(
    'two workers accept calls',
    () => service.program.output().split('msg="start service" worker=').length > 3,
  )
  loading = false
  await Promise.all([...load, watch])
  // Each of the connections may fail one call, and one more that was sent before the loss was noticed.
  assert.ok(failed <= 2 * own, `${failed} calls failed on ${own} connections`)
  assert.equal(ill, 0, 'the other worker answers, so the service stays healthy')
  const counted = (await service.stats())[requests] ?? 0
  assert.ok(counted <= answered + failed, `${counted} calls are counted, ${answered} were answered`)
  const [replacement = 0] = childrenOf(service.program.pid).filter(pid => pid !== other)
  const again = connect(t, service.grpcPort)
  await Promise.all(again.map(({ shouldRateLimit }) => shouldRateLimit(ask)))
  assert.ok(connectionsOf(replacement, service.grpcPort) > 0, 'the new worker has no connection')
  assert.equal((await service.stats())[requests], counted + again.length)
})

test('SIGTERM under load: unhealthy at once and ready, no call is lost, the last statistics are written', async t => {
  if (!requireProgram(t, 'redis-server')) return
  // The calls below must end within the delay, even if the machine is busy with other tests.
  const drainDelayMs = 8_000
  const service = await startTwo(t, 1_000_000, {
    DRAIN_DELAY: `${drainDelayMs}ms`,
    USE_PUSHSTATS: 'false',
    STATS_FLUSH_INTERVAL: '1h',
  })
  const callers = connect(t, service.grpcPort)
  const failures: string[] = []
  let calls = 0
  let noticed = false
  const load = callers.map(async ({ shouldRateLimit }) => {
    while (!noticed) {
      await shouldRateLimit(ask).catch(error => failures.push(String(error)))
      calls += 1
    }
  })
  await waitFor('the load', () => calls > 500)
  const toldMs = performance.now()
  const ended = service.program.end('SIGTERM')
  await waitFor('the service to be unhealthy', async () => (await service.health()) === 500)
  assert.equal(await service.ready(), 200)
  const before = calls
  await waitFor('calls that are answered after that', () => calls > before + 100)
  noticed = true
  await Promise.all(load)
  assert.deepEqual(failures, [])
  assert.equal(await ended, 0)
  assert.ok(performance.now() - toldMs >= drainDelayMs)
  assert.match(
    service.program.output(),
    new RegExp(`"name":"${requests}","type":"counter","value":${calls}}`),
  )
})

test('workers end when their supervisor is killed', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const service = await startTwo(t, 1)
  const workers = childrenOf(service.program.pid)
  assert.equal(workers.length, 2)
  await service.program.end('SIGKILL')
  await waitFor('both to be gone', () => {
    const running = readdirSync('/proc')
    return !workers.some(pid => running.includes(`${pid}`))
  })
})

test('a failed start ends the process with the reason, and leaves no worker', async t => {
  const taken = createServer().listen(0, '127.0.0.1')
  t.after(() => taken.close())
  await waitFor('the port', () => taken.listening)
  const { port } = taken.address() as { port: number }
  const [free = 0] = await freePorts(1)
  const redis = { KVSTORE_URL: 'redis://127.0.0.1:99999' }
  const cases: readonly [settings: Settings, output: RegExp, code?: number][] = [
    [{ GRPC_PORT: `${port}` }, new RegExp(`"GRPC_PORT: listen EADDRINUSE.*127.0.0.1:${port}"`)],
    [{ PORT: `${port}` }, new RegExp(`"PORT: listen EADDRINUSE.*127.0.0.1:${port}"`)],
    [{ PORT: `${free}`, GRPC_PORT: `${free}` }, new RegExp(`"PORT: listen EADDRINUSE.*127.0.0.1:${free}"`)],
    [{ DEBUG_PORT: `${port}` }, new RegExp(`EADDRINUSE.*127.0.0.1:${port}"`)],
    [{ BACKEND_TYPE: 'memory' }, /^WORKERS: "2" is not allowed with BACKEND_TYPE=memory/, 78],
    [{ GRPC_UDS: '/tmp/a.sock' }, /^WORKERS: "2" is not allowed with GRPC_UDS/, 78],
    [redis, /worker=[01] reason="KVSTORE_URL: .*\n[\s\S]*reason="worker [01] exited with code 1"/],
  ]
  await Promise.all(
    cases.map(async ([settings, expected, code = 1]) => {
      const { program } = await startRateLimit(t, { ...configuration(1), ...settings })
      assert.equal(await program.exited(), code)
      assert.match(program.output(), expected)
    }),
  )
})
