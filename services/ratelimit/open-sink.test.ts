import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { readSettings } from '@tollway/chassis/settings.ts'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import { openSink } from './open-sink.ts'
import { type Settings, settings as settingsOfService } from './settings.ts'
import { startPrometheusServer } from './stats/sinks/prometheus-server.ts'
import { readExposition } from './stats/sinks/testing/read-exposition.ts'
import { listenTcp, listenUdp, until } from './stats/sinks/testing/receivers.ts'
import { createStats } from './stats/stats.ts'

const env = {
  PUSHSTATS_HOST: '127.0.0.1',
  PUSHSTATS_PORT: '1',
  STATS_FLUSH_INTERVAL: '10ms',
  EXTRA_TAGS: 'zone:a',
}

/** The default settings, but with a short interval and receivers on this machine. */
const unset: Settings = { ...readUnset(), pullStatsAddress: { host: '127.0.0.1', port: 0 } }

function readUnset(): Settings {
  const found = readSettings(settingsOfService, env, () => '')
  if ('problems' in found) throw new Error(JSON.stringify(found.problems))
  return found.value
}

async function open(settings: Partial<Settings>, env: Record<string, string> = {}) {
  const stats = createStats()
  stats.counter('some.hits').value += 3
  const written: string[] = []
  const write = (text: string) => written.push(text)
  const random = () => 0.5
  const sink = await openSink(
    { ...unset, ...settings },
    { stats, log: silentLog, env, random, write, probe: () => undefined },
  )
  return { stats, written, sink }
}

test('by default statistics go to statsd over TCP', async t => {
  const receiver = await listenTcp()
  t.after(receiver.close)
  for (const usePushStats of ['', true] as const) {
    const { sink } = await open({ usePushStats, pushStatsPort: receiver.port })
    await until('a line', () => receiver.lines().length > 0)
    await sink.stop()
  }
  assert.deepEqual(receiver.lines(), ['some.hits.__zone=a:3|c', 'some.hits.__zone=a:3|c'])
})

test('the protocol can be UDP', async t => {
  const receiver = await listenUdp()
  t.after(receiver.close)
  const { sink } = await open({ pushStatsProtocol: 'udp', pushStatsPort: receiver.port })
  t.after(sink.stop)
  await until('a line', () => receiver.lines().length > 0)
  assert.deepEqual(receiver.lines(), ['some.hits.__zone=a:3|c'])
})

test('an agent gets tags and mogrified names over UDP', async t => {
  const receiver = await listenUdp()
  t.after(receiver.close)
  const env = {
    DOG_STATSD_MOGRIFIER_HITS_PATTERN: '^(.*)\\.hits$',
    DOG_STATSD_MOGRIFIER_HITS_NAME: 'hits',
    DOG_STATSD_MOGRIFIER_HITS_TAGS: 'of:$1',
  }
  const agent = { useAgentStats: true, agentStatsMogrifiers: ['HITS'], pushStatsPort: receiver.port }
  const { sink, stats } = await open(agent, env)
  t.after(sink.stop)
  stats.histogram('time').record(5)
  await until('both lines', () => receiver.lines().length > 1)
  assert.deepEqual(receiver.lines(), ['hits:3|c|#zone:a,of:some', 'time:5.056|ms|#zone:a'])
})

test('without statsd they go to the log sink, and disabled nowhere', async () => {
  const logged = await open({ usePushStats: false })
  await until('a line', () => logged.written.length > 0)
  await logged.sink.stop()
  assert.equal(
    logged.written.join(''),
    '{"name":"some.hits","tags":{"zone":"a"},"type":"counter","value":3}\n',
  )
  const none = await open({
    usePushStats: false,
    useAgentStats: true,
    usePullStats: true,
    disableStats: true,
  })
  await none.sink.stop()
  assert.deepEqual(none.written, [])
})

test('two sinks that are both enabled are rejected; the default does not count', async () => {
  const both = 'unable to use more than one stats sink at the same time: '
  await assert.rejects(open({ useAgentStats: true, usePullStats: true }), {
    message: `${both}USE_AGENTSTATS and USE_PULLSTATS are both true; allowed: one of them`,
  })
  await assert.rejects(open({ usePushStats: true, usePullStats: true }), {
    message: /USE_PUSHSTATS and USE_PULL/,
  })
  const { sink } = await open({ usePullStats: true })
  await sink.stop()
})

test('problems of mogrifiers and mappings are reported at the start', async () => {
  await assert.rejects(open({ useAgentStats: true, agentStatsMogrifiers: ['A'] }), {
    message: /AGENTSTATS_MOGRIFIER_A_PATTERN: no PATTERN specified for mogrifier A\n/,
  })
  const path = join(temporaryFolder('mapping'), 'mapping.yaml')
  writeFileSync(path, 'mappings: [{match: a, name: 1}]')
  await assert.rejects(open({ usePullStats: true, pullStatsMapperFile: path }), {
    message: /^PULLSTATS_MAPPER_YAML: '1' is not the name of a metric \(at mappings\[0\].name;/,
  })
  await assert.rejects(open({ usePullStats: true, pullStatsMapperFile: `${path}.none` }), {
    message: /^PULLSTATS_MAPPER_YAML: ENOENT/,
  })
})

test('an address in use is reported at the start', async t => {
  const taken = createServer()
  await new Promise<void>(resolve => taken.listen(0, '127.0.0.1', resolve))
  t.after(() => taken.close())
  const address = taken.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const pull = { usePullStats: true, pullStatsAddress: { host: '127.0.0.1', port } }
  await assert.rejects(open(pull), { code: 'EADDRINUSE' })
})

test('metrics are served only at their path', async t => {
  let defect: Error | undefined
  const defects: unknown[] = []
  const server = await startPrometheusServer({
    host: '127.0.0.1',
    port: 0,
    path: '/metrics',
    expose: async () => {
      if (defect !== undefined) throw defect
      const pieces = ['# HELP a b\n# TYPE a ', 'counter\na{b="é"} 1\n'].map(piece => Buffer.from(piece))
      return { contentType: 'text/plain; version=0.0.4', pieces }
    },
    probe: path => (path === '/livez' ? { status: 200, body: 'alive\n' } : undefined),
    onDefect: error => defects.push(error),
  })
  t.after(server.stop)
  const { address } = server
  assert.ok(typeof address === 'object' && address !== null)
  const ask = (path: string, method = 'GET') => fetch(`http://127.0.0.1:${address.port}${path}`, { method })
  const scrape = await ask('/metrics?name[]=a')
  assert.deepEqual([scrape.status, scrape.headers.get('content-type')], [200, 'text/plain; version=0.0.4'])
  assert.deepEqual(readExposition(await scrape.text()).get('a')?.samples[0]?.labels, { b: 'é' })
  assert.equal((await ask('/metrics', 'HEAD')).status, 200)
  assert.equal((await ask('/metrics', 'POST')).status, 405)
  assert.equal((await ask('/')).status, 404)
  assert.equal((await ask('/livez')).status, 200)
  defect = new Error('a defect')
  assert.equal((await ask('/metrics')).status, 500)
  assert.deepEqual(defects, [defect])
  assert.equal(
    (await ask('/livez?verbose')).status,
    200,
    'an error of the metrics does not affect the probes',
  )
  await server.stop()
  await assert.rejects(ask('/metrics'))
})
