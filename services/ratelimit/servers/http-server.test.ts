import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { MemoryBudget } from '@tollway/chassis/memory-budget.ts'
import { Histogram } from '@tollway/chassis/metrics/histogram.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { maxParts } from '../limiter/decision.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { createHttpServer } from './http-server.ts'
import { openLimiter } from './testing/open-limiter.ts'

/** A longer body is rejected. */
const maxJsonBodyBytes = 1024 * 1024

const parts = {
  limiter: openLimiter().limiter,
  clock: systemClock,
  times: new Histogram(),
  healthy: () => true,
  draining: () => false,
  onDefect() {},
}

interface Options {
  readonly memory?: MemoryBudget
  readonly limiter?: Limiter
  readonly healthy?: () => boolean
  readonly draining?: () => boolean
}

async function start(t: TestContext, options: Options = {}) {
  const defects: unknown[] = []
  const rejected: string[] = []
  const times = new Histogram()
  const server = createHttpServer({
    limiter: openLimiter().limiter,
    clock: systemClock,
    times,
    healthy: () => true,
    draining: () => false,
    onDefect: (_, error) => defects.push(error),
    onRejected: problem => rejected.push(problem),
    ...options,
  })
  const port = await server.listen({ host: '127.0.0.1', port: 0 })
  t.after(() => server.drain(0))
  const address = `http://127.0.0.1:${port}`
  const ask = async (body: string | Uint8Array<ArrayBuffer> | undefined, path = '/json', method = 'POST') => {
    const response = await fetch(address + path, { method, ...(body !== undefined && { body }) })
    return {
      status: response.status,
      type: response.headers.get('content-type'),
      body: await response.text(),
    }
  }
  return { server, port, address, ask, defects, rejected, times }
}

const user = (value: string) =>
  `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"${value}"}]}]}`
const plain = 'text/plain; charset=utf-8'
const badRequest = { status: 400, type: plain, body: 'Bad Request\n' }

test('/json answers 200 and then 429, with the whole answer as proto3 JSON', async t => {
  const { ask } = await start(t)
  const limit = '"currentLimit":{"name":"x","requestsPerUnit":1,"unit":"MINUTE"},"durationUntilReset":"42s"'
  assert.deepEqual(await ask(user('a')), {
    status: 200,
    type: 'application/json',
    body: `{"overallCode":"OK","statuses":[{"code":"OK",${limit}}]}`,
  })
  assert.deepEqual(await ask(user('a')), {
    status: 429,
    type: 'application/json',
    body: `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT",${limit}}]}`,
  })
})

test('zero values are left out, and 32-bit values are numbers', async t => {
  const { ask } = await start(t)
  const entries = ['free', 'nothing', 'week'].map(key => `{"entries":[{"key":"${key}","value":"v"}]}`)
  const { body } = await ask(`{"domain":"d","descriptors":[${entries}]}`)
  assert.deepEqual(JSON.parse(body).statuses, [
    { code: 'OK', limitRemaining: 4294967295 },
    { code: 'OK' },
    {
      code: 'OK',
      currentLimit: { requestsPerUnit: 5, unit: 'WEEK' },
      limitRemaining: 4,
      durationUntilReset: '209562s',
    },
  ])
})

/** A body, and the status codes of sending it that many times. */
const bodies: readonly [string, string, string][] = [
  [
    'lowerCamel',
    '{"domain":"d","hitsAddend":2,"descriptors":[{"entries":[{"key":"week","value":"1"}]}]}',
    '200 200 429',
  ],
  [
    'snake_case',
    '{"domain":"d","hits_addend":2,"descriptors":[{"entries":[{"key":"week","value":"2"}]}]}',
    '200 200 429',
  ],
  [
    'a 64-bit number as a string',
    '{"domain":"d","descriptors":[{"hitsAddend":"4","entries":[{"key":"week","value":"3"}]}]}',
    '200 429',
  ],
  [
    'a 64-bit number as a number',
    '{"domain":"d","descriptors":[{"hits_addend":4,"entries":[{"key":"week","value":"4"}]}]}',
    '200 429',
  ],
  [
    'the largest 64-bit number',
    '{"domain":"d","descriptors":[{"hitsAddend":"18446744073709551615","entries":[{"key":"week","value":"5"}]}]}',
    '429',
  ],
  [
    'no hits: only a read',
    '{"domain":"d","descriptors":[{"hitsAddend":"0","entries":[{"key":"user","value":"6"}]}]}',
    '200 200 200',
  ],
  [
    'a limit in the request',
    '{"domain":"d","descriptors":[{"limit":{"requests_per_unit":1,"unit":"HOUR"},"entries":[{"key":"z"}]}]}',
    '200 429',
  ],
  ['an unknown domain', user('7').replace('"d"', '"other"'), '200 200'],
]

test('both spellings of fields and of 64-bit numbers are accepted', async t => {
  const { ask } = await start(t)
  for (const [what, body, expected] of bodies) {
    const codes: number[] = []
    for (const _ of expected.split(' ')) codes.push((await ask(body)).status)
    assert.equal(codes.join(' '), expected, what)
  }
})

const wrongBodies: readonly [string, string | Uint8Array<ArrayBuffer>][] = [
  ['nothing', ''],
  ['no JSON', '{'],
  ['no object', 'null'],
  ['a list', '[]'],
  ['an unknown field', '{"domain":"d","descriptor":[]}'],
  ['a prototype', '{"domain":"d","__proto__":{"descriptors":[]}}'],
  ['a wrong type', '{"domain":5}'],
  ['a number beyond 64 bits', '{"domain":"d","descriptors":[{"hitsAddend":"18446744073709551616"}]}'],
  ['no domain', '{"descriptors":[{"entries":[{"key":"user"}]}]}'],
  ['no descriptors', '{"domain":"d"}'],
  ['a limit without a unit', '{"domain":"d","descriptors":[{"limit":{},"entries":[{"key":"user"}]}]}'],
  ['no UTF-8', Buffer.from(user('\xff'), 'latin1')],
  ['brackets without end', '['.repeat(500_000)],
  ['too many descriptors', `{"domain":"d","descriptors":[${'{},'.repeat(maxParts)}{}]}`],
  ['more than the read limit', ' '.repeat(maxJsonBodyBytes + 1)],
  ['much more than the read limit', ' '.repeat(8 * maxJsonBodyBytes)],
]

test('invalid requests and calls that fail are bad requests', async t => {
  const { ask, defects } = await start(t)
  for (const [what, body] of wrongBodies) assert.deepEqual(await ask(body), badRequest, what)
  const longest = `${user('long')}${' '.repeat(maxJsonBodyBytes - user('long').length)}`
  assert.equal((await ask(longest)).status, 200)
  const failing = await start(t, openLimiter('CLUSTERDOWN The cluster is down'))
  assert.deepEqual(await failing.ask(user('a')), badRequest)
  assert.deepEqual([...defects, ...failing.defects], [])
})

test('the reason of a bad request is logged, and not sent to the caller', async t => {
  const { ask, rejected } = await start(t)
  await ask('{"domain":"d","descriptors":[{"entries":[{"key":1}]}]}')
  await ask('{"descriptors":[{}]}')
  assert.deepEqual(rejected, [
    'descriptors[0].entries[0].key: a number was found, a string is allowed',
    'rate limit domain must not be empty',
  ])
})

test('an unexpected error is a status 500 without its text', async t => {
  const limiter: Limiter = { decide: () => Promise.reject(new Error('secret')) }
  const { ask, defects } = await start(t, { limiter })
  assert.deepEqual(await ask(user('a')), { status: 500, type: plain, body: 'Internal Server Error\n' })
  assert.equal(defects.length, 1)
})

test('any method is accepted, other paths are not found', async t => {
  const { ask } = await start(t)
  assert.equal((await ask(user('put'), '/json?x=1', 'PUT')).status, 200)
  assert.deepEqual(await ask(undefined, '/json', 'GET'), badRequest)
  for (const path of ['/', '/json/', '//json', '/constructor']) {
    assert.deepEqual(await ask(undefined, path, 'GET'), {
      status: 404,
      type: plain,
      body: '404 page not found\n',
    })
  }
})

test('/healthcheck is 200 with OK, or 500 with nothing', async t => {
  let healthy = true
  const { ask } = await start(t, { healthy: () => healthy })
  for (const method of ['GET', 'POST']) {
    const { status, body } = await ask(undefined, '/healthcheck', method)
    assert.deepEqual([status, body], [200, 'OK'])
  }
  healthy = false
  const { status, body } = await ask(undefined, '/healthcheck', 'GET')
  assert.deepEqual([status, body], [500, ''])
})

test('a caller that disconnects within its body does not affect others', async t => {
  const { port, ask, defects } = await start(t)
  const socket = connect(port, '127.0.0.1')
  socket.write('POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"domain"')
  await once(socket, 'connect')
  socket.resetAndDestroy()
  assert.equal((await ask(user('after'))).status, 200)
  assert.deepEqual(defects, [])
})

test('the newest unfinished bodies beyond the memory get 503; the oldest is answered', async t => {
  const memory = new MemoryBudget(1024 * 1024)
  const { port, ask } = await start(t, { memory })
  const body = user('a').padEnd(200_000)
  const send = async () => {
    const before = memory.bytes
    const call = request({ port, path: '/json', method: 'POST', headers: { 'Content-Length': body.length } })
    call.on('error', () => {})
    t.after(() => call.destroy())
    const answer = once(call, 'response')
    call.write(body.slice(0, -1))
    const status = answer.then(([{ statusCode }]) => statusCode)
    await Promise.race([
      status,
      waitFor('the body to arrive', () => memory.bytes >= before + body.length - 1),
    ])
    return { call, status }
  }
  const oldest = await send()
  for (let count = 0; count < 4; count += 1) await send()
  assert.equal(await (await send()).status, 503)
  assert.equal((await ask(user('short'))).status, 200)
  oldest.call.end(' ')
  assert.equal(await oldest.status, 200)
})

test('processes may share the port; otherwise an address in use is an error', async t => {
  const { server, port } = await start(t)
  await assert.rejects(server.listen({ host: '127.0.0.1', port }), { code: 'ERR_SERVER_ALREADY_LISTEN' })
  const options = { ...parts, healthy: () => true }
  await assert.rejects(createHttpServer(options).listen({ host: '127.0.0.1', port }), { code: 'EADDRINUSE' })
  const [first, second] = [createHttpServer(options), createHttpServer(options)]
  t.after(() => Promise.all([first.drain(0), second.drain(0)]))
  const shared = await first.listen({ host: '127.0.0.1', port: 0, reusePort: true })
  assert.equal(await second.listen({ host: '127.0.0.1', port: shared, reusePort: true }), shared)
})

test('connections are kept while the process serves, healthy or not, and closed by a drain', async t => {
  let draining = false
  const { address } = await start(t, { healthy: () => false, draining: () => draining })
  const agent = new Agent({ keepAlive: true })
  t.after(() => agent.destroy())
  const connection = async () => {
    const call = request(`${address}/healthcheck`, { agent }).end()
    const [response] = await once(call, 'response')
    response.resume()
    return response.headers.connection
  }
  assert.equal(await connection(), 'keep-alive')
  draining = true
  assert.equal(await connection(), 'close')
})

test('a drain waits for running calls, up to its limit', async () => {
  let running = 0
  const limiter: Limiter = {
    decide() {
      running += 1
      return new Promise(() => {})
    },
  }
  const server = createHttpServer({ ...parts, limiter })
  const port = await server.listen({ host: '127.0.0.1', port: 0 })
  const call = request({ port, path: '/json', method: 'POST' }).end(user('a'))
  const cut = once(call, 'error')
  await waitFor('the call to run', () => running === 1)
  await server.drain(20)
  assert.equal((await cut)[0].code, 'ECONNRESET')
})

test('a drain under load loses no call', async t => {
  let decided = 0
  const limiter: Limiter = {
    async decide(call) {
      decided += 1
      await new Promise(resolve => setImmediate(resolve))
      return parts.limiter.decide(call)
    },
  }
  const { server, port } = await start(t, { limiter })
  const agent = new Agent({ keepAlive: true })
  t.after(() => agent.destroy())
  let answered = 0
  const caller = async () => {
    for (;;) {
      const call = request({ port, agent, path: '/json', method: 'POST' }).end(user('drained'))
      const [response] = await once(call, 'response')
      response.resume()
      await once(response, 'end')
      answered += 1
      if (response.headers.connection === 'close') return
    }
  }
  const callers = Array.from({ length: 20 }, caller)
  await waitFor('calls to run', () => answered > 200)
  await Promise.all([...callers, server.drain(60_000)])
  assert.equal(answered, decided)
})

test('each call of /json is timed, also a bad one', async t => {
  const { ask, times } = await start(t)
  await ask('{"domain":"basic","descriptors":[{"entries":[{"key":"key1"}]}]}')
  await ask('no JSON')
  await ask(undefined, '/healthcheck', 'GET')
  assert.equal(times.count, 2)
})
