import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { before, test } from 'node:test'
import { openAnimationClient } from '../services/broker/servers/testing/animation-client.ts'
import { encodeText } from '../services/broker/streams/testing/simulation-under-test.ts'
import { startCollector } from '../services/chassis/tracing/testing/span-collector.ts'
import { freePorts } from '../test/support/free-ports.ts'
import { startGrpcCollector } from '../test/support/grpc-trace-collector.ts'
import { startProgram } from '../test/support/program.ts'
import { type RateLimitProcess, startRateLimit } from '../test/support/rate-limit-process.ts'
import { startRedis } from '../test/support/redis-server.ts'
import { requireProgram } from '../test/support/require-server.ts'
import { temporaryFolder } from '../test/support/temporary-folder.ts'
import { type Cleanup, manifest, startTollway } from '../test/support/tollway.ts'
import { waitFor } from '../test/support/wait-for.ts'
import { bundle } from './bundle.ts'

/**
 * These tests run the programs as the images contain them: plain JavaScript in a folder without the
 * repository, and without a node_modules folder nearby.
 */
const root = join(import.meta.dirname, '..')
const place = temporaryFolder('programs')
const tollway = join(place, 'operator/tollway.mjs')
const ratelimit = join(place, 'ratelimit/ratelimit.mjs')
const broker = join(place, 'broker/broker.mjs')
const payments = join(place, 'payments/payments.mjs')
const runtime = join(place, 'runtime')

/** The programs are in a new folder at each run: caching their compiled code would only fill the cache. */
delete process.env['NODE_COMPILE_CACHE']

before(async () => {
  write(
    'runtime/ratelimit/config/shop.yaml',
    'domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1}\n',
  )
  const made = {
    operator: await bundle(root, 'tollway', 'operator/cli/tollway.ts'),
    ratelimit: await bundle(root, 'ratelimit', 'services/ratelimit/main.ts'),
    broker: await bundle(root, 'broker', 'services/broker/main.ts'),
    payments: await bundle(root, 'payments', 'services/payments/main.ts'),
  }
  for (const [folder, { files }] of Object.entries(made)) {
    for (const [name, content] of files) write(`${folder}/${name}`, content)
  }
})

function write(path: string, content: string | Uint8Array): void {
  mkdirSync(dirname(join(place, path)), { recursive: true })
  writeFileSync(join(place, path), content)
}

async function start(t: Cleanup, env: Readonly<Record<string, string>>): Promise<RateLimitProcess> {
  const settings = { RUNTIME_ROOT: runtime, RUNTIME_SUBDIRECTORY: 'ratelimit', USE_STATSD: 'false' }
  const service = await startRateLimit(t, { ...settings, ...env }, ratelimit)
  await service.serves()
  return service
}

const askTwice = async (service: RateLimitProcess) => [
  await service.ask('shop', 'user', 'alice'),
  await service.ask('shop', 'user', 'alice'),
]

test('the rate limit service answers calls', async t => {
  const service = await start(t, { BACKEND_TYPE: 'memory' })
  assert.deepEqual(await askTwice(service), [200, 429])
})

test('the rate limit service starts its workers from the bundle', async t => {
  if (requireProgram(t, 'redis-server') === false) return
  const redis = await startRedis()
  t.after(() => redis.stop())
  const backend = { REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${redis.port}` }
  const service = await start(t, { WORKERS: '2', ...backend })
  assert.deepEqual(await askTwice(service), [200, 429])
})

for (const protocol of ['http', 'grpc'] as const) {
  test(`the rate limit service loads its tracing modules and exports spans over ${protocol}`, async t => {
    const collector = await (protocol === 'http' ? startCollector(t) : startGrpcCollector(t))
    const service = await start(t, {
      BACKEND_TYPE: 'memory',
      TRACING_ENABLED: 'true',
      TRACING_EXPORTER_PROTOCOL: protocol,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_BSP_SCHEDULE_DELAY: '50',
    })
    assert.deepEqual(await askTwice(service), [200, 429])
    await waitFor('a span', () => collector.spans.length > 0)
  })
}

for (const streamLog of ['memory', 'redis']) {
  test(`the broker delivers messages from its ${streamLog} log`, async t => {
    if (streamLog === 'redis' && requireProgram(t, 'redis-server') === false) return
    const redis = streamLog === 'redis' ? await startRedis() : undefined
    t.after(() => redis?.stop())
    const [grpcPort = 0, debugPort = 0] = await freePorts(2)
    const program = startProgram(process.execPath, [broker], {
      env: {
        GRPC_HOST: '127.0.0.1',
        GRPC_PORT: `${grpcPort}`,
        DEBUG_HOST: '127.0.0.1',
        DEBUG_PORT: `${debugPort}`,
        STREAM_LOG: streamLog,
        ...(redis && { REDIS_URL: `redis://127.0.0.1:${redis.port}` }),
      },
    })
    t.after(() => program.end('SIGKILL'))
    const health = async () => (await fetch(`http://127.0.0.1:${debugPort}/healthcheck`)).status
    await waitFor('the broker to be healthy', async () => (await health().catch(() => 0)) === 200)
    const { push, pull } = openAnimationClient(t, `127.0.0.1:${grpcPort}`)
    const pulled = pull({ requestId: 'r' })
    const pushed = push()
    for (const text of ['header', '1', 'SUCCESS']) pushed.write(encodeText(text, 'r'))
    pushed.end()
    assert.match(await pushed.answer, /^SUCCESS/)
    assert.equal(await pulled.end, 'OK')
    assert.equal(pulled.messages.length, 3)
  })
}

test('the payments service creates its database and its schema', async t => {
  const [port = 0, debugPort = 0] = await freePorts(2)
  const program = startProgram(process.execPath, [payments], {
    env: {
      HOST: '127.0.0.1',
      PORT: `${port}`,
      DEBUG_HOST: '127.0.0.1',
      DEBUG_PORT: `${debugPort}`,
      STATE_DIR: join(place, 'payments-state'),
    },
  })
  t.after(() => program.end('SIGKILL'))
  await program.said('start service', 60_000)
  const made = await fetch(`http://127.0.0.1:${port}/apps`, { method: 'POST' })
  assert.equal(made.status, 201, await made.text())
})

function run(...args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [tollway, ...args], { encoding: 'utf8' })
  return { status, said: stdout + stderr }
}

test('tollway prints its commands, and validates manifests', () => {
  const help = run('--help')
  assert.equal(help.status, 0, help.said)
  assert.match(help.said, /^ {2}run .*\n(?:.*\n)* {2}validate /m)
  write('right/a.yaml', manifest('a', 'a', { user: '1/hour' }))
  write('wrong/a.yaml', manifest('a', 'a', { user: '1/fortnight' }))
  const right = run('validate', '-f', join(place, 'right'))
  assert.equal(right.status, 0, right.said)
  const wrong = run('validate', '-f', join(place, 'wrong'))
  assert.equal(wrong.status, 1, wrong.said)
  assert.match(wrong.said, /fortnight/)
})

test('tollway run starts the services of the same folder', async t => {
  const started = await startTollway(
    t,
    { 'a.yaml': manifest('a', 'a', { user: '1/hour' }) },
    ['--broker-replicas', '1'],
    [process.execPath, tollway],
  )
  await started.ready()
  const health = run('call', '--health', '--grpc', `127.0.0.1:${started.brokerPort}`)
  assert.deepEqual(health, { status: 0, said: 'OK\n' })
  assert.deepEqual([await started.ask('a', 'user', 'x'), await started.ask('a', 'user', 'x')], [200, 429])
  const page = `${started.status().addresses['operator']}/console`
  assert.match(await (await fetch(page)).text(), /src="\/console\/main\.js"/)
  for (const file of ['main.js', 'style.css', 'uplot.css', 'icon.svg'])
    assert.equal((await fetch(`${page}/${file}`)).status, 200, file)
})
