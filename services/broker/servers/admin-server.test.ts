import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { connect } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type TestContext, test } from 'node:test'
import { createLog } from '@tollway/chassis/log/log.ts'
import { readBoundedBody } from '@tollway/chassis/net/read-bounded-body.ts'
import { readSettings } from '@tollway/chassis/settings.ts'
import { makeCertificate } from '../../../test/support/certificate.ts'
import { requireProgram } from '../../../test/support/require-server.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { startService } from '../service.ts'
import { settings } from '../settings.ts'
import { encodeText } from '../streams/testing/simulation-under-test.ts'
import { openAnimationClient } from './testing/animation-client.ts'

const quick = {
  ...{ GRPC_HOST: '127.0.0.1', GRPC_PORT: '0', DEBUG_PORT: '0', DRAIN_DELAY: '0', DRAIN_TIMEOUT: '50ms' },
  ...{ ADMIN_HOST: '127.0.0.1', ADMIN_PORT: '0' },
}
const token = 'first-token-of-the-tests'
const second = 'second/token+of=='

/** Starts a broker whose admin API has these tokens, and keeps what it logs. */
async function start(t: TestContext, { tokens = `${token}\n`, env = {} } = {}) {
  const file = join(temporaryFolder('admin'), 'tokens')
  if (tokens !== '') writeFileSync(file, tokens)
  const read = readSettings(settings, { ...quick, ADMIN_TOKEN_FILE: file, ...env }, () => '')
  assert.ok('value' in read)
  const logged: string[] = []
  const log = createLog({ level: 'debug', format: 'json', write: line => void logged.push(line) })
  const service = await startService(read.value, log)
  t.after(() => service.stop())
  assert.ok('port' in service.grpc && service.adminPort !== undefined)
  const target = `127.0.0.1:${service.grpc.port}`
  const port = service.adminPort
  const ask = (path: string, options: Asking = {}) => askAdmin(port, path, options)
  return { file, port, ask, logged, open: () => openAnimationClient(t, target) }
}

interface Asking {
  readonly method?: string
  readonly token?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
  readonly ca?: string
  readonly client?: { readonly cert: string; readonly key: string }
}

function open(port: number, path: string, asking: Asking): Promise<IncomingMessage> {
  const { method = 'GET', ca, client, headers = {} } = asking
  const authorization = 'token' in asking ? asking.token : token
  const options = {
    ...{ host: '127.0.0.1', port, path, method, agent: false },
    headers: { ...headers, ...(authorization !== undefined && { authorization: `Bearer ${authorization}` }) },
  }
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const call = ca === undefined ? requestHttp(options) : requestHttps({ ...options, ca, ...client })
  call.on('response', resolve).on('error', reject).end()
  return promise
}

async function askAdmin(port: number, path: string, asking: Asking) {
  const response = await open(port, path, asking)
  const text = (await readBoundedBody(response, 1_000_000)) ?? ''
  return { status: response.statusCode, text, headers: response.headers }
}

interface Line {
  readonly event: string
  readonly stream?: { readonly requestId: string; readonly end: { readonly how: string } | null }
}

/** Watches the streams, and collects the event and the request of each line. */
async function watch(t: TestContext, port: number, asking: Asking = {}) {
  const response = await open(port, '/streams?watch=true', asking)
  assert.equal(response.statusCode, 200)
  t.after(() => response.destroy())
  const lines: string[] = []
  let ended = false
  const reader = createInterface({ input: response }).on('line', text => {
    const { event, stream } = JSON.parse(text) as Line
    lines.push(
      [event, ...(stream ? [stream.requestId] : []), ...(stream?.end ? [stream.end.how] : [])].join(' '),
    )
  })
  reader.on('close', () => {
    ended = true
  })
  return {
    lines,
    until: (line: string) => waitFor(line, () => lines.includes(line)),
    ended: () => ended,
    response,
  }
}

test('streams are listed and interrupted with any token of the file', async t => {
  const { ask, open } = await start(t, { tokens: `# for the controller\n\n${token}\r\n  ${second}  \n` })
  const push = open().push()
  push.write(encodeText('header', 'r1'))
  const list = async () => JSON.parse((await ask('/streams', { token: second })).text)
  await waitFor('the request', async () => (await list()).total === 1)
  const interrupted = await ask('/streams/s/requests/r1', { method: 'DELETE' })
  assert.deepEqual(JSON.parse(interrupted.text), { interrupted: 1 })
  assert.equal(await push.answer, 'INFO interrupted')
  assert.deepEqual((await list()).streams[0].end, {
    how: 'interrupted',
    code: 'INFO',
    message: 'interrupted',
  })
})

test('a call without a token of the file is rejected, and reveals nothing', async t => {
  const { ask, logged } = await start(t)
  for (const [path, asking] of [
    ['/streams', { token: undefined }],
    ['/streams', { token: `${token}x` }],
    ['/streams', { token: token.slice(1) }],
    ['/streams/s', { token: 'wrong', method: 'DELETE' }],
    ['/unknown', { token: 'wrong' }],
    ['/metrics', { token: undefined }],
    ['/streams?watch=true', { token: `${token} ${token}` }],
    ['/streams', { token: undefined, headers: { authorization: `Basic ${token}` } }],
  ] as const) {
    const { status, text, headers } = await ask(path, asking)
    assert.equal(status, 401, path)
    assert.deepEqual(JSON.parse(text), {
      code: 'unauthenticated',
      message: 'a bearer token of the admin API is needed',
    })
    assert.equal(headers['www-authenticate'], 'Bearer')
  }
  assert.ok(logged.some(line => line.includes('wrong token')))
  assert.ok(logged.every(line => !line.includes(token)))
})

test('an address that sends wrong tokens is rejected for a while', async t => {
  const { ask } = await start(t)
  for (let tries = 0; tries < 10; tries += 1)
    assert.equal((await ask('/streams', { token: 'wrong' })).status, 401)
  const { status, headers } = await ask('/streams')
  assert.equal(status, 429)
  assert.match(headers['retry-after'] ?? '', /^[1-6]$/)
})

test('a changed file replaces the tokens, and ends the watches of removed ones', async t => {
  const { ask, file, port, logged } = await start(t, { tokens: `${token}\n${second}\n` })
  const removed = await watch(t, port)
  const kept = await watch(t, port, { token: second })
  writeFileSync(file, `${second}\n`)
  await waitFor('the end of the watch', () => removed.ended())
  assert.equal(kept.ended(), false)
  assert.equal((await ask('/streams')).status, 401)
  writeFileSync(file, '')
  await waitFor('no token', async () => (await ask('/streams', { token: second })).status === 503)
  assert.ok(
    logged.some(line => line.includes(`ADMIN_TOKEN_FILE: ${file}: expected one token a line, got none`)),
  )
  writeFileSync(file, `${token}\n`)
  await waitFor('the token', async () => (await ask('/streams')).status === 200)
})

for (const [content, said] of [
  ['', /ADMIN_TOKEN_FILE: \S+tokens: cannot be read: ENOENT$/],
  ['# none\n\n', /tokens: expected one token a line, got none$/],
  [`${token}\nshort\n`, /tokens: line 2: expected a token of 16 to 512 characters, got 5$/],
  ['a token with spaces, too\n', /line 1: expected a token of letters, digits/],
  [`${token}\n`.repeat(101), /expected at most 100 tokens, got 101/],
  ['x'.repeat(70_000), /70000 bytes, and at most 65536/],
] as const) {
  test(`the broker does not start with the tokens ${JSON.stringify(content.slice(0, 30))}`, async t => {
    await assert.rejects(start(t, { tokens: content }), said)
  })
}

test('watchers get the running requests, and each change', async t => {
  const { port, open } = await start(t)
  const early = open().push()
  early.write(encodeText('header', 'r1'))
  const pull = open().pull({ requestId: 'r1' })
  await pull.until('header r1')
  const seen = await watch(t, port)
  await seen.until('synced')
  assert.deepEqual(seen.lines, ['running r1', 'synced'])
  const late = open().push()
  late.write(encodeText('header', 'r2'))
  await seen.until('begun r2')
  pull.cancel()
  await seen.until('changed r1')
  for (const text of ['1', 'SUCCESS']) late.write(encodeText(text))
  late.end()
  await seen.until('ended r2 completed')
  early.cancel()
  await waitFor('the end', () => seen.lines.some(line => line.startsWith('ended r1')))
})

test('the number of watchers is limited', async t => {
  const { port, ask } = await start(t)
  const watches = []
  for (let index = 0; index < 32; index += 1) watches.push(await watch(t, port))
  assert.deepEqual([(await ask('/streams?watch=true')).status, (await ask('/streams')).status], [503, 200])
  watches[0]?.response.destroy()
  await waitFor('room for another watcher', async () => {
    const response = await open(port, '/streams?watch=true', {})
    response.destroy()
    return response.statusCode === 200
  })
})

test('one address cannot use all connections', async t => {
  const { ask, port } = await start(t)
  const sockets = Array.from({ length: 300 }, () =>
    connect({ host: '127.0.0.1', port, localAddress: '127.0.0.2' }),
  )
  t.after(() => {
    for (const socket of sockets) socket.destroy()
  })
  let closed = 0
  for (const socket of sockets) {
    socket
      .on('error', () => {})
      .on('close', () => {
        closed += 1
      })
    socket.resume().write('GET /streams HTTP/1.1\r\nX: ')
  }
  await waitFor('the others to be closed', () => closed >= 300 - 64)
  assert.equal((await ask('/streams')).status, 200)
  assert.equal(closed, 300 - 64)
})

test('a request with a body, a long head or another method is rejected', async t => {
  const { ask } = await start(t)
  assert.equal((await ask('/streams', { headers: { 'content-length': '5' } })).status, 413)
  assert.equal((await ask('/streams', { headers: { 'transfer-encoding': 'chunked' } })).status, 413)
  assert.equal((await ask(`/streams/${'x'.repeat(20_000)}`)).status, 431)
  assert.equal((await ask('/streams', { method: 'POST' })).status, 405)
  assert.equal((await ask('/streams/%zz', { method: 'DELETE' })).status, 400)
  assert.equal((await ask('/streams/', { method: 'DELETE' })).status, 404)
  assert.equal((await ask('/stats')).status, 404)
})

test('the admin API uses the certificates of gRPC, and requires those of clients', async t => {
  if (requireProgram(t, 'openssl') === false) return
  const folder = temporaryFolder('admin-tls')
  const server = await makeCertificate(folder, 'server', 'IP:127.0.0.1')
  const client = await makeCertificate(folder, 'client', 'DNS:admin.test')
  const other = await makeCertificate(folder, 'other', 'DNS:admin.test')
  const tls = {
    GRPC_SERVER_USE_TLS: 'true',
    GRPC_SERVER_TLS_CERT: server.certFile,
    GRPC_SERVER_TLS_KEY: server.keyFile,
  }
  const simple = await start(t, { env: tls })
  assert.equal((await simple.ask('/streams', { ca: server.cert })).status, 200)
  assert.equal((await simple.ask('/streams', { ca: server.cert, token: 'wrong' })).status, 401)
  await assert.rejects(simple.ask('/streams'), /socket hang up|ECONNRESET|Parse Error/)
  await assert.rejects(simple.ask('/streams', { ca: other.cert }), /self-signed certificate/)
  const mutual = await start(t, {
    env: { ...tls, GRPC_CLIENT_TLS_CACERT: client.certFile, GRPC_CLIENT_TLS_SAN: 'admin.test' },
  })
  assert.equal((await mutual.ask('/streams', { ca: server.cert, client })).status, 200)
  await assert.rejects(mutual.ask('/streams', { ca: server.cert }))
  await assert.rejects(mutual.ask('/streams', { ca: server.cert, client: other }))
  const wrongName = await start(t, {
    env: { ...tls, GRPC_CLIENT_TLS_CACERT: client.certFile, GRPC_CLIENT_TLS_SAN: 'someone.else' },
  })
  await assert.rejects(wrongName.ask('/streams', { ca: server.cert, client }))
})

test('without ADMIN_TOKEN_FILE there is no admin API', async () => {
  const read = readSettings(settings, { ...quick }, () => '')
  assert.ok('value' in read)
  const service = await startService(read.value, createLog({ level: 'error', format: 'json' }))
  assert.equal(service.adminPort, undefined)
  await service.stop()
})
