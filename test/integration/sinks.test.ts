import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { readExposition } from '../../services/ratelimit/stats/sinks/testing/read-exposition.ts'
import {
  listenTcp,
  listenUdp,
  type Receiver,
} from '../../services/ratelimit/stats/sinks/testing/receivers.ts'
import { freePorts } from '../support/free-ports.ts'
import { rateLimitFiles, userLimit } from '../support/rate-limit-files.ts'
import { startRateLimit } from '../support/rate-limit-process.ts'
import { manifest, startTollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

type Settings = Readonly<Record<string, string>>

/** Starts the service, and makes one call within the limit of 1 and two above it. */
async function start(t: TestContext, settings: Settings) {
  const files = rateLimitFiles(userLimit('1/day'))
  const service = await startRateLimit(t, {
    ...files.env,
    BACKEND_TYPE: 'memory',
    DRAIN_DELAY: '0s',
    STATS_FLUSH_INTERVAL: '50ms',
    ...settings,
  })
  await service.serves()
  const codes = []
  for (let call = 0; call < 3; call += 1) codes.push(await service.ask('shop', 'user', 'alice'))
  assert.deepEqual(codes, [200, 429, 429])
  return service
}

/**
 * Returns the sum of the lines that begin with the text; `<head>:<value>|c<tail>` is a line.
 * `<head>:<value>|c<tail>` is a line.
 */
function sumLines({ lines }: Receiver, head: string, tail = ''): number {
  return lines()
    .filter(line => line.startsWith(`${head}:`) && line.endsWith(`|c${tail}`))
    .reduce((sum, line) => sum + Number(line.slice(head.length + 1).split('|')[0]), 0)
}

const overLimit = 'ratelimit.service.rate_limit.shop.user.over_limit'

for (const [protocol, listen] of [
  ['tcp', listenTcp],
  ['udp', listenUdp],
] as const) {
  test(`a statsd server gets all statistics by ${protocol}`, async t => {
    const receiver = await listen()
    t.after(() => receiver.close())
    await start(t, {
      STATSD_HOST: '127.0.0.1',
      STATSD_PORT: `${receiver.port}`,
      STATSD_PROTOCOL: protocol,
      EXTRA_TAGS: 'zone:eu',
    })
    await waitFor('the hits above the limit', () => sumLines(receiver, `${overLimit}.__zone=eu`) === 2)
    assert.equal(sumLines(receiver, 'ratelimit.service.config_load_success.__zone=eu'), 1)
  })
}

test('an agent gets the tags of the settings and of mogrifiers', async t => {
  const receiver = await listenUdp()
  t.after(() => receiver.close())
  await start(t, {
    USE_DOG_STATSD: 'true',
    STATSD_HOST: '127.0.0.1',
    STATSD_PORT: `${receiver.port}`,
    EXTRA_TAGS: 'zone:eu',
    DOG_STATSD_MOGRIFIERS: 'LIMIT',
    DOG_STATSD_MOGRIFIER_LIMIT_PATTERN: '^ratelimit\\.service\\.rate_limit\\.(.*)\\.(.*)\\.(.*)$',
    DOG_STATSD_MOGRIFIER_LIMIT_NAME: 'limits.$3',
    DOG_STATSD_MOGRIFIER_LIMIT_TAGS: 'domain:$1,descriptor:$2',
  })
  const tags = '|#zone:eu,domain:shop,descriptor:user'
  await waitFor('the hits above the limit', () => sumLines(receiver, 'limits.over_limit', tags) === 2)
})

test('Prometheus gets the metrics of a mapping file', async t => {
  const [port = 0] = await freePorts(1)
  const files = rateLimitFiles(userLimit('1/day'))
  const mapper = join(files.env['RUNTIME_ROOT'] ?? '', 'mapping.yaml')
  const labels = '{shop_domain: "$1", what: "$2"}'
  const match = 'ratelimit.service.rate_limit.*.*.over_limit'
  writeFileSync(mapper, `mappings: [{match: "${match}", name: beyond, labels: ${labels}}]\n`)
  await start(t, {
    USE_STATSD: 'false',
    USE_PROMETHEUS: 'true',
    PROMETHEUS_ADDR: `127.0.0.1:${port}`,
    PROMETHEUS_PATH: '/numbers',
    PROMETHEUS_MAPPER_YAML: mapper,
  })
  const body = await (await fetch(`http://127.0.0.1:${port}/numbers`)).text()
  assert.deepEqual(readExposition(body).get('beyond')?.samples, [
    { name: 'beyond', labels: { shop_domain: 'shop', what: 'user' }, value: 2 },
  ])
})

test('without a sink, changes are written to the standard output', async t => {
  const { program } = await start(t, { USE_STATSD: 'false' })
  await program.said(`{"name":"${overLimit}","type":"counter","value":`)
})

test('tollway run serves the metrics of each process, and prints their addresses', async t => {
  const [metricsPort = 0] = await freePorts(1)
  const options = ['--metrics', '--metrics-port', `${metricsPort}`]
  const tollway = await startTollway(t, { 'c.yaml': manifest('c', 'shop', { user: '1/day' }) }, options)
  const { replicas } = await tollway.ready()
  const url = `http://127.0.0.1:${metricsPort}/metrics`
  assert.deepEqual(
    replicas.map(({ addresses }) => addresses['metrics']),
    [url],
  )
  assert.match(tollway.program.output(), new RegExp(`\\n  metrics +${url}\\n`))
  assert.equal(await tollway.ask('shop', 'user', 'alice'), 200)
  const metrics = readExposition(await (await fetch(url)).text())
  assert.deepEqual(metrics.get('ratelimit_service_rate_limit_total_hits')?.samples, [
    {
      name: 'ratelimit_service_rate_limit_total_hits',
      labels: { domain: 'shop', key1: 'user' },
      value: 1,
    },
  ])
})
