import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:http'
import { type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { createGuardedServer } from '@tollway/chassis/net/guarded-server.ts'
import { createStats, type Stats } from '../stats/stats.ts'
import { createProbePages, debugListener } from './debug.ts'
import { listen } from './testing/open-limiter.ts'

const probes = createProbePages({
  problem: () => 'is ending',
  acceptProblem: () => '',
  backendProblem: () => '',
})

async function start(t: TestContext, stats: Stats = createStats()) {
  const rules = 'd.user: unit=MINUTE requests_per_unit=3, shadow_mode: false, quota_mode: false\n'
  const address = await listen(
    t,
    createGuardedServer(debugListener({ stats, rules: () => rules, clock: systemClock, probes })),
  )
  /** Sends the path unchanged; fetch would normalize it. */
  return async (path: string) => {
    const { port } = new URL(address)
    const [response] = await once(request({ port, path }).end(), 'response')
    let body = ''
    for await (const chunk of response.setEncoding('utf8')) body += chunk
    return { status: response.statusCode, type: response.headers['content-type'], body }
  }
}

const plain = 'text/plain; charset=utf-8'

test('the index lists the other pages, sorted', async t => {
  const get = await start(t)
  const index = [
    '/backend: whether the backend of the counters answers, or the cause why not',
    '/debug/pprof/: profiles of this process',
    '/debug/pprof/heap: where memory is allocated and kept; ?seconds=N, ?format=devtools',
    '/debug/pprof/heapsnapshot: everything in memory, for Chrome DevTools',
    '/debug/pprof/profile: where time is spent; ?seconds=N, ?format=devtools',
    '/healthcheck: whether calls can be answered, or the reason why not; ?draining=ok ignores a shutdown',
    '/livez: whether the process runs',
    '/rlconfig: print out the currently loaded configuration for debugging',
    '/stats: print out stats; ?format=json for JSON',
    '',
  ].join('\n')
  assert.deepEqual(await get('/'), { status: 200, type: plain, body: index })
  for (const path of ['/nothing', '//', '//x:y', '/%', '/constructor', '*']) {
    assert.equal((await get(path)).status, 404, path)
  }
})

test('/rlconfig shows the configuration in force', async t => {
  const get = await start(t)
  assert.match((await get('/rlconfig')).body, /^d\.user: unit=MINUTE requests_per_unit=3/)
})

test('/stats shows every counter and gauge, sorted by name, as text and as JSON', async t => {
  const stats = createStats()
  stats.counter('b').value = 2
  stats.gauge('a', () => 1.5)
  stats.counter('c')
  const get = await start(t, stats)
  assert.deepEqual(await get('/stats'), { status: 200, type: plain, body: 'a: 1.5\nb: 2\nc: 0\n' })
  const json = await get('/stats?format=json')
  assert.deepEqual(json, { status: 200, type: 'application/json', body: '{"a":1.5,"b":2,"c":0}\n' })
})

test('a name from a caller can neither break a line nor hide the lines below', async t => {
  const stats = createStats()
  const hostile = ['a\nb: 7', 'c\r', '\u001b[2K', '\u0085', '\u2028x', '\u202ey', '__proto__', 'ü: 1']
  for (const name of hostile) stats.counter(name).value = 1
  const get = await start(t, stats)
  const { body } = await get('/stats')
  const expected = [
    '__proto__: 1',
    'a\\u{a}b: 7: 1',
    'c\\u{d}: 1',
    '\\u{1b}[2K: 1',
    '\\u{85}: 1',
    '\\u{2028}x: 1',
    '\\u{202e}y: 1',
    'ü: 1: 1',
  ]
  assert.deepEqual(body.trimEnd().split('\n').sort(), expected.sort())
  const json = JSON.parse((await get('/stats?format=json')).body)
  assert.deepEqual(Object.keys(json).sort(), hostile.sort())
})

test('probes are answered in any state of health', async t => {
  const get = await start(t)
  assert.deepEqual(await get('/livez'), { status: 200, type: plain, body: 'alive\n' })
  assert.deepEqual(await get('/healthcheck'), { status: 500, type: plain, body: 'is ending\n' })
  assert.deepEqual(await get('/healthcheck?draining=ok'), { status: 200, type: plain, body: 'OK' })
})
