import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { RateLimitResponse_Code as Code } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { healthCheckPath } from '../../services/grpc/server/health.ts'
import { rateLimitFiles, userLimit } from '../support/rate-limit-files.ts'
import { callRateLimit, type RateLimitProcess, startRateLimit } from '../support/rate-limit-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { waitFor } from '../support/wait-for.ts'

/** A configuration file with this limit a day, counted in memory. */
function fileSettings(limit: number) {
  const files = rateLimitFiles(userLimit(`${limit}/day`))
  return { write: files.write, env: { BACKEND_TYPE: 'memory', ...files.env } }
}

const wrongSettings: readonly [Record<string, string>, readonly string[]][] = [
  [{ GRPC_PORT: 'eighty' }, ['GRPC_PORT: "eighty" is not allowed: a whole number from 0 to 65535']],
  [{ BACKEND_TYPE: 'disk' }, ['BACKEND_TYPE: "disk" is not allowed: one of redis, memcache, memory']],
  [
    { GRPC_MAX_CONNECTION_AGE: '1000h', STATS_FLUSH_INTERVAL: '0' },
    [
      'GRPC_MAX_CONNECTION_AGE: "1000h" is not allowed: a duration such as 500ms, 10s or 1m30s, ' +
        'with the units ns, us, ms, s, m, h; at most 480h',
      'STATS_FLUSH_INTERVAL: "0" is not allowed: a duration such as 500ms, 10s or 1m30s, ' +
        'with the units ns, us, ms, s, m, h; 10ms to 480h',
    ],
  ],
  [
    { NEAR_LIMIT_RATIO: '2', REDIS_TYPE: 'ring', TRACING_ENABLED: '1' },
    [
      'REDIS_TYPE: "ring" is not allowed: single, sentinel or cluster',
      'NEAR_LIMIT_RATIO: "2" is not allowed: a number from 0 to 1',
      'TRACING_ENABLED: "1" is not allowed: one of true, false',
    ],
  ],
  [
    { KVSTORE_AUTH: 'hidden', REDIS_AUTH: 'hidden too' },
    ['KVSTORE_AUTH: KVSTORE_AUTH and REDIS_AUTH are the same setting and have different values; keep one'],
  ],
]

test('wrong settings end the process, and each is reported with its name and the allowed values', async t => {
  await Promise.all(
    wrongSettings.map(async ([env, expected]) => {
      const { program } = await startRateLimit(t, env)
      assert.equal(await program.exited(), 78)
      assert.deepEqual(program.output().trimEnd().split('\n'), expected)
    }),
  )
})

test('an address in use is reported with its setting before any configuration arrives', async t => {
  const taken = createServer().listen(0, '127.0.0.1')
  t.after(() => taken.close())
  await waitFor('the port', () => taken.listening)
  const { port } = taken.address() as { port: number }
  const metrics = { USE_PULLSTATS: 'true', PULLSTATS_ADDR: `127.0.0.1:${port}` }
  for (const env of [{ GRPC_PORT: `${port}` }, { PORT: `${port}` }, { DEBUG_PORT: `${port}` }, metrics]) {
    const { program } = await startRateLimit(t, { ...waitsForEver, ...env })
    assert.equal(await program.exited(), 1)
    const name = Object.keys(env).at(-1)
    assert.match(
      program.output(),
      new RegExp(`msg="start service failed" reason="${name}: .*EADDRINUSE.*:${port}"`),
    )
  }
})

/** The settings of a service that waits for its first configuration indefinitely. */
const waitsForEver = { BACKEND_TYPE: 'memory', RUNTIME_ROOT: '/nonexistent' }

test('a wrong file or path of a setting is reported before any configuration arrives', async t => {
  const folder = temporaryFolder('service')
  const path = (name: string) => join(folder, name)
  writeFileSync(path('file'), 'mappings: 5')
  const longPath = path('x'.repeat(120))
  const tls = {
    GRPC_SERVER_USE_TLS: 'true',
    GRPC_SERVER_TLS_CERT: path('none'),
    GRPC_SERVER_TLS_KEY: path('file'),
  }
  const backendTls = { BACKEND_TYPE: 'redis', KVSTORE_URL: '127.0.0.1:1', KVSTORE_TLS: 'true' }
  const wrong: readonly [Readonly<Record<string, string>>, string][] = [
    [tls, `GRPC_SERVER_TLS_CERT: ${path('none')}: cannot be read: ENOENT`],
    [
      { GRPC_UDS: path('none/socket') },
      `GRPC_UDS: ${path('none/socket')}: its folder cannot be written to: ENOENT`,
    ],
    [
      { GRPC_UDS: longPath },
      `GRPC_UDS: ${longPath}: has ${longPath.length} bytes, and at most 10[37] are allowed`,
    ],
    [{ GRPC_UDS: path('file') }, `GRPC_UDS: ${path('file')}: the file is not a socket`],
    [
      { USE_PULLSTATS: 'true', PULLSTATS_ADDR: '127.0.0.1:0', PULLSTATS_MAPPER_YAML: path('file') },
      'PULLSTATS_MAPPER_YAML: ',
    ],
    [
      { ...backendTls, KVSTORE_TLS_CACERT: path('none') },
      `KVSTORE_TLS_CACERT: ${path('none')}: cannot be read`,
    ],
  ]
  await Promise.all(
    wrong.map(async ([env, reason]) => {
      const { program } = await startRateLimit(t, { ...waitsForEver, ...env })
      assert.equal(await program.exited(), 1)
      assert.match(program.output(), new RegExp(`msg="start service failed" reason="${reason}`))
    }),
  )
})

test('with files and counters in memory the service answers gRPC and HTTP, and follows an edit', async t => {
  const { env, write } = fileSettings(2)
  const service = await startRateLimit(t, { ...env, REDIS_TLS: 'False', DRAIN_DELAY: '0' })
  await service.serves()
  const { client, shouldRateLimit } = callRateLimit(t, service.grpcPort)
  const ask = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }
  assert.equal((await shouldRateLimit(ask)).overallCode, Code.OK)
  assert.deepEqual(
    [await service.ask('shop', 'user', 'alice'), await service.ask('shop', 'user', 'alice')],
    [200, 429],
  )
  assert.equal((await shouldRateLimit(ask)).overallCode, Code.OVER_LIMIT)
  for (const name of ['', 'ratelimit']) {
    const bytes = { encode: (text: string) => Buffer.from(`\n${String.fromCharCode(text.length)}${text}`) }
    const codec = { ...bytes, decode: (answer: Uint8Array) => [...answer] }
    assert.deepEqual(await client.unary(healthCheckPath, codec, name), [0x08, 1], `"${name}" serves`)
  }
  write(userLimit('1000000/day'))
  await waitFor('the new limit', async () => (await service.ask('shop', 'user', 'alice')) === 200)
  const rules = await (await fetch(`http://127.0.0.1:${service.debugPort}/rlconfig`)).text()
  assert.equal(
    rules,
    'shop.user: unit=DAY requests_per_unit=1000000, shadow_mode: false, quota_mode: false\n',
  )
  const stats = await service.stats()
  assert.equal(stats['ratelimit_server.ShouldRateLimit.total_requests'], 2)
  assert.equal(stats['ratelimit_server.Check.total_requests'], 2)
  assert.equal(stats['ratelimit.service.config_load_success'], 2)
  assert.equal(await service.program.end('SIGINT'), 0)
})

/** Calls over HTTP on connections that are kept, as a proxy would. */
function httpCaller(t: TestContext, service: RateLimitProcess) {
  const agent = new Agent({ keepAlive: true })
  t.after(() => agent.destroy())
  const body = '{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"bob"}]}]}'
  return () =>
    new Promise<number>((resolve, reject) => {
      const options = { port: service.httpPort, path: '/json', method: 'POST', agent }
      const call = request(options, response => {
        response.resume().on('end', () => resolve(response.statusCode ?? 0))
      })
      call.on('error', reject).end(body)
    })
}

test('SIGTERM under load makes the service unhealthy but not unready, and no call fails meanwhile', async t => {
  // The calls below must end within the delay, even if the machine is busy with other tests.
  const drainDelayMs = 8_000
  const service = await startRateLimit(t, {
    ...fileSettings(1_000_000).env,
    DRAIN_DELAY: `${drainDelayMs}ms`,
  })
  await service.serves()
  const { shouldRateLimit } = callRateLimit(t, service.grpcPort)
  const ask = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }
  const overHttp = httpCaller(t, service)
  const failures: string[] = []
  let calls = 0
  let noticed = false
  const load = Array.from({ length: 16 }, async (_, caller) => {
    const call = async () => {
      if (caller % 2 === 0) assert.equal((await shouldRateLimit(ask)).overallCode, Code.OK)
      else assert.equal(await overHttp(), 200)
    }
    while (!noticed) {
      await call().catch(error => failures.push(String(error)))
      calls += 1
    }
  })
  await waitFor('the load', () => calls > 100)
  const toldMs = performance.now()
  const ended = service.program.end('SIGTERM')
  await waitFor('the process to be unhealthy', async () => (await service.health()) === 500)
  assert.equal(await service.ready(), 200)
  assert.ok(performance.now() - toldMs < drainDelayMs)
  const before = calls
  await waitFor('calls that are answered after that', () => calls > before + 100)
  noticed = true
  await Promise.all(load)
  assert.deepEqual(failures, [])
  assert.equal(await ended, 0)
  assert.ok(performance.now() - toldMs >= drainDelayMs)
})

test('SIGTERM ends a process that still waits for its first configuration', async t => {
  const missing = await startRateLimit(t, { BACKEND_TYPE: 'memory', RUNTIME_ROOT: '/nonexistent' })
  await missing.program.said('/nonexistent/config: cannot be read: ENOENT')
  const server = { CONFIG_TYPE: 'GRPC_XDS_SOTW', CONFIG_GRPC_XDS_SERVER_URL: '127.0.0.1:1' }
  const waiting = await startRateLimit(t, { BACKEND_TYPE: 'memory', ...server })
  await waiting.program.said('connect to management server failed')
  for (const { program, health } of [missing, waiting]) {
    await assert.rejects(health(), 'it takes no calls yet')
    assert.equal(await program.end('SIGTERM'), 0)
  }
})

test('the password of Redis appears in no output, whatever fails', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const redis = await startRedis(['--requirepass', 'topsecret'])
  t.after(() => redis.stop())
  const settings = (url: string) => ({
    ...fileSettings(1).env,
    BACKEND_TYPE: 'redis',
    BACKEND_DEADLINE: '5s',
    LOG_LEVEL: 'debug',
    KVSTORE_SOCKET_TYPE: 'tcp',
    KVSTORE_URL: url,
  })
  const right = await startRateLimit(t, settings(`redis://:topsecret@127.0.0.1:${redis.port}`))
  await right.serves()
  assert.equal(await right.ask('shop', 'user', 'alice'), 200)
  assert.equal(await right.ask('shop', 'user', 'alice'), 429)

  const wrong = await startRateLimit(t, settings(`redis://:topsecret2@127.0.0.1:${redis.port}`))
  const unreachable = await startRateLimit(t, settings('redis://user:topsecret@127.0.0.1:1'))
  for (const service of [wrong, unreachable]) {
    await service.program.said('the service waits for the backend', 30_000)
    const probe = await fetch(`http://127.0.0.1:${service.debugPort}/healthcheck`)
    assert.equal(probe.status, 500)
    assert.doesNotMatch(await probe.text(), /topsecret/)
  }
  const malformed = await startRateLimit(t, settings('redis://user:topsecret@127.0.0.1:99999'))
  assert.equal(await malformed.program.exited(), 1)
  assert.match(malformed.program.output(), /KVSTORE_URL: the address of Redis must be host:port/)
  for (const { program } of [right, wrong, unreachable, malformed]) {
    await program.end('SIGKILL')
    assert.doesNotMatch(program.output(), /topsecret/)
  }
})
