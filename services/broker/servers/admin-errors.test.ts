import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, describe, type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { closeHttp, listenHttp } from '@tollway/chassis/net/listen-http.ts'
import { type AdminErrorCode, adminErrors, PageError } from './admin-errors.ts'
import { createAdminServer } from './admin-server.ts'
import type { AdminTokens } from './admin-tokens.ts'

const token = 'first-token-of-the-tests'
type Verdict = ReturnType<AdminTokens['check']>

/** Starts an admin API whose log, previews and watches fail. */
async function serve(t: TestContext, verdict?: Verdict) {
  const failing = (message: string) => () => Promise.reject(new Error(message))
  const counted: string[] = []
  const server = createAdminServer({
    pages: {
      broker: { requests: () => [], waitingPulls: 0 },
      streams: { interrupt: failing('Redis: connect ECONNREFUSED') },
      makePreview: key => (key === 'x' ? Promise.resolve(undefined) : failing('4 previews are being made')()),
      clock: systemClock,
      watch: {
        add() {
          throw new PageError('too-many-watches', '32 calls watch the streams')
        },
      },
    },
    tokens: { check: given => verdict ?? (given === `Bearer ${token}` ? 'accepted' : 'rejected') },
    tls: undefined,
    clock: systemClock,
    stats: { failed: (_, status) => counted.push(status) },
    log: silentLog,
  })
  server.headersTimeout = 50
  const port = await listenHttp(server, { host: '127.0.0.1', port: 0 })
  t.after(() => closeHttp(server, 0))
  return { port, counted }
}

/** Sends bytes, and resolves with the answer when the connection ends. */
async function send(port: number, bytes: string) {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {}).write(bytes)
  const [head = '', body = ''] = (await text(socket)).split('\r\n\r\n')
  return { head, status: Number(head.split(' ')[1]), body: JSON.parse(body.replace(/^\w+\r\n|\r\n0$/g, '')) }
}

const request = (start: string, ...headers: readonly string[]) =>
  [
    `${start} HTTP/1.1`,
    'Host: localhost',
    `Authorization: Bearer ${token}`,
    'Connection: close',
    ...headers,
    '',
    '',
  ].join('\r\n')

const cases: readonly (readonly [
  code: AdminErrorCode,
  bytes: string,
  counted?: string,
  verdict?: Verdict,
])[] = [
  ['invalid', request('GET /streams?watch=no')],
  ['invalid', request('GET /streams/preview')],
  ['invalid', request('DELETE /streams/%zz')],
  ['invalid', 'garbage\r\n\r\n'],
  ['unauthenticated', request('GET /streams'), 'UNAUTHENTICATED', 'rejected'],
  ['not-found', request('GET /nothing')],
  ['not-found', request('GET /streams/preview?key=x')],
  ['method', request('POST /streams'), 'UNIMPLEMENTED'],
  ['deadline', 'GET /streams HTTP/1.1\r\n'],
  ['body', request('GET /streams', 'Content-Length: 5'), 'INVALID_ARGUMENT'],
  ['too-large', request(`GET /streams/${'x'.repeat(20_000)}`)],
  ['no-tokens', request('GET /streams'), 'UNAVAILABLE', 'unusable'],
  ['too-many-watches', request('GET /streams?watch=true')],
  ['preview-failed', request('GET /streams/preview?key=y')],
  ['log-failed', request('DELETE /streams/s')],
]

describe('an error of the admin API is the answer to a request', () => {
  const seen = new Set<string>()
  after(() => assert.deepEqual([...seen].sort(), Object.keys(adminErrors).sort()))

  for (const [code, bytes, status, verdict] of cases)
    test(`${code}: ${bytes.slice(0, 40).split('\r\n')[0]}`, async t => {
      const { port, counted } = await serve(t, verdict)
      const answer = await send(port, bytes)
      assert.deepEqual([answer.body.code, answer.status], [code, adminErrors[code].status])
      assert.deepEqual(Object.keys(answer.body), ['code', 'message'])
      assert.match(answer.head, /content-type: application\/json/i)
      assert.deepEqual(counted, status === undefined ? [] : [status])
      seen.add(code)
    })

  test('too-many is the error after ten wrong tokens', async t => {
    const { port } = await serve(t)
    const wrong = request('GET /streams').replace(token, 'wrong')
    for (let tries = 0; tries < 10; tries += 1) assert.equal((await send(port, wrong)).status, 401)
    const { status, body, head } = await send(port, request('GET /streams'))
    assert.deepEqual([body.code, status], ['too-many', 429])
    assert.match(head, /retry-after: [1-6]/i)
    seen.add('too-many')
  })
})

test('the reference has each error of the admin API with its status, and no other', () => {
  const page = readFileSync(
    join(import.meta.dirname, '../../../docs/reference/broker-admin-errors.md'),
    'utf8',
  )
  assert.deepEqual(
    [...page.matchAll(/^\| `([a-z-]+)` \| (\d+) \|/gm)].map(([, code, status]) => `${code} ${status}`),
    Object.entries(adminErrors).map(([code, { status }]) => `${code} ${status}`),
  )
})
