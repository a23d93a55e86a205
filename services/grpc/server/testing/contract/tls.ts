import assert from 'node:assert/strict'
import { connect as connectPlain, type Socket } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type ConnectionOptions, connect } from 'node:tls'
import { Client, credentials } from '@grpc/grpc-js'
import { temporaryFolder } from '../../../../../test/support/temporary-folder.ts'
import type { GrpcLimits, ServerTls } from '../../../server.ts'
import { statusCodes } from '../../../status.ts'
import { createAuthority } from './certificates.ts'
import { type CreateServer, openStream, request, texts, waitFor } from './support.ts'

type TlsCredentials = ReturnType<ServerTls['credentials']>

const serverName = 'server.test'
const fleet = createAuthority('fleet')
const strangers = createAuthority('strangers')
const member = fleet.issue('member.test')

const peer = texts.unary('/test.Test/Peer', (_, call) => call.peer)
const names = texts.unary('/test.Test/Names', (_, call) => call.peerCertificate?.subjectAltName ?? 'none')
const echoEach = texts.bidi('/test.Test/EchoEach', requests => requests)
const namesEach = texts.bidi('/test.Test/NamesEach', async function* (requests, call) {
  for await (const _ of requests) yield call.peerCertificate?.subjectAltName ?? 'none'
})

/** Tests TLS with client certificates: accepted and rejected callers, and changes of the credentials. */
export function tlsContract(createServer: CreateServer): void {
  callerContract(createServer)
  credentialContract(createServer)
  handshakeLimitContract(createServer)
}

/**
 * Starts a server that accepts only callers with a certificate of the fleet's authority, except one of them.
 */
async function start(t: TestContext, createServer: CreateServer, limits: Partial<GrpcLimits> = {}) {
  let current: TlsCredentials = fleet.issue(serverName)
  const listeners = new Set<() => void>()
  const rejected: string[] = []
  const tls: ServerTls = {
    credentials: () => current,
    requireClientCert: true,
    verifyClient: certificate =>
      certificate.checkHost('banned.test') ? new Error('a banned member') : undefined,
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    onRejected: error => rejected.push(error.message),
  }
  const server = createServer({ methods: [peer, names, echoEach, namesEach], limits, onDefect: assert.fail })
  t.after(() => server.drain(0))
  const bound = await server.listen({ host: '127.0.0.1', port: 0, tls })
  assert.ok('port' in bound)
  return {
    server,
    tls,
    port: bound.port,
    rejected,
    listeners,
    change(credentials: TlsCredentials): void {
      current = credentials
      for (const listener of listeners) listener()
    },
  }
}

function openClient(t: TestContext, target: string | number, own: TlsCredentials = member, ca = fleet.ca) {
  const secure = credentials.createSsl(Buffer.from(ca), Buffer.from(own.key), Buffer.from(own.cert))
  const client = new Client(typeof target === 'number' ? `127.0.0.1:${target}` : target, secure, {
    'grpc.ssl_target_name_override': serverName,
    'grpc.use_local_subchannel_pool': 1,
    'grpc.enable_http_proxy': 0,
  })
  t.after(() => client.close())
  return client
}

/** Returns whether the server accepts this caller: it then sends data. */
async function isServed(t: TestContext, socket: Socket): Promise<boolean> {
  t.after(() => socket.destroy())
  return new Promise(resolve => {
    socket.on('error', () => {}).once('data', () => resolve(true))
    socket.once('close', () => resolve(false))
  })
}

function callerContract(createServer: CreateServer): void {
  test('a member is served, and its peer name is its address', async t => {
    const { port } = await start(t, createServer)
    const { message } = await request(openClient(t, port), peer.path)
    assert.match(Buffer.from(message ?? []).toString(), /^127\.0\.0\.1:\d+$/)
  })

  test('a handler knows the certificate of its caller', async t => {
    const { port } = await start(t, createServer)
    for (const { path } of [names, namesEach]) {
      const { message } = await request(openClient(t, port), path)
      assert.equal(Buffer.from(message ?? []).toString(), 'DNS:member.test')
    }
  })

  test('a member is served over a unix socket', async t => {
    const { server, tls } = await start(t, createServer)
    const folder = temporaryFolder('grpc')
    const socketPath = join(folder, 'socket')
    assert.deepEqual(await server.listen({ socketPath, tls }), { socketPath })
    const { message } = await request(openClient(t, `unix:${socketPath}`), peer.path)
    assert.equal(Buffer.from(message ?? []).toString(), 'unix')
  })

  test('without requireClientCert every caller is served', async t => {
    const { server, tls } = await start(t, createServer)
    const bound = await server.listen({
      host: '127.0.0.1',
      port: 0,
      tls: { ...tls, requireClientCert: false },
    })
    assert.ok('port' in bound)
    const client = new Client(`127.0.0.1:${bound.port}`, credentials.createSsl(Buffer.from(fleet.ca)), {
      'grpc.ssl_target_name_override': serverName,
    })
    t.after(() => client.close())
    assert.equal((await request(client, peer.path)).status.code, statusCodes.OK)
    const { message } = await request(client, names.path)
    assert.equal(Buffer.from(message ?? []).toString(), 'none')
  })

  const good: ConnectionOptions = { ...member, servername: serverName, ALPNProtocols: ['h2'] }
  const cases: readonly [string, ConnectionOptions, RegExp][] = [
    ['no certificate', { ...good, cert: undefined, key: undefined }, /did not return a certificate/],
    ['a certificate of another authority', { ...good, ...strangers.issue('member.test'), ca: fleet.ca }, /./],
    ['a certificate that verifyClient rejects', { ...good, ...fleet.issue('banned.test') }, /banned/],
    ['no ALPN', { ...good, ALPNProtocols: undefined }, /h2 by ALPN/],
    ['only HTTP/1.1 by ALPN', { ...good, ALPNProtocols: ['http/1.1'] }, /./],
    [
      'TLS 1.1',
      { ...good, minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' },
      /unsupported protocol/,
    ],
  ]
  test('a member is served while other callers are rejected', async t => {
    const { port, rejected } = await start(t, createServer)
    const client = openClient(t, port)
    assert.equal(await isServed(t, connect(port, '127.0.0.1', good)), true)
    for (const [what, options, reason] of cases) {
      rejected.length = 0
      assert.equal(await isServed(t, connect(port, '127.0.0.1', options)), false, what)
      await waitFor(`the log of ${what}`, () => rejected.length > 0)
      assert.match(rejected.join(), reason, what)
      assert.equal((await request(client, peer.path)).status.code, statusCodes.OK, what)
    }
  })

  test('a caller without TLS, or one that disconnects, affects only its connection', async t => {
    const { port, rejected } = await start(t, createServer)
    const plain = connectPlain(port, '127.0.0.1')
    plain.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
    assert.equal(await isServed(t, plain), false)
    const hasty = connectPlain(port, '127.0.0.1', () => hasty.resetAndDestroy())
    await waitFor('the log of both', () => rejected.length === 2)
    assert.equal((await request(openClient(t, port), peer.path)).status.code, statusCodes.OK)
  })
}

function credentialContract(createServer: CreateServer): void {
  test('a change applies to new handshakes, and not to running calls', async t => {
    const { port, change, listeners, server } = await start(t, createServer)
    const early = openClient(t, port)
    const stream = openStream(early, echoEach.path)
    stream.write('before')
    assert.equal(await stream.read(), 'before')

    const successor = createAuthority('successor')
    change(successor.issue(serverName))
    stream.write('after')
    assert.equal(await stream.read(), 'after')
    assert.equal((await request(early, peer.path)).status.code, statusCodes.OK, 'an old connection')
    const old = await request(openClient(t, port), peer.path)
    assert.equal(old.status.code, statusCodes.UNAVAILABLE, 'a new connection with old credentials')
    const late = openClient(t, port, successor.issue('member.test'), successor.ca)
    assert.equal((await request(late, peer.path)).status.code, statusCodes.OK, 'a new one with new ones')

    await server.drain(0)
    assert.equal(listeners.size, 0, 'no listener for changes is left')
  })

  test('invalid credentials are rejected at the start, and ignored after a change', async t => {
    const { port, change, server, tls } = await start(t, createServer)
    const { cert, key } = fleet.issue(serverName)
    const wrong: readonly [TlsCredentials, RegExp][] = [
      [{ cert, key: strangers.issue(serverName).key, ca: fleet.ca }, /key values mismatch/],
      [{ cert: 'no PEM', key, ca: fleet.ca }, /PEM|no start line/],
      [{ cert, key }, /a ca is needed/],
    ]
    for (const [credentialsOf, reason] of wrong) {
      const other = { ...tls, credentials: () => credentialsOf }
      await assert.rejects(server.listen({ host: '127.0.0.1', port: 0, tls: other }), reason)
      assert.throws(() => change(credentialsOf), reason)
      assert.equal((await request(openClient(t, port), peer.path)).status.code, statusCodes.OK)
    }
  })

  test('an address that cannot be bound leaves no listener behind', async t => {
    const { port, listeners, server, tls } = await start(t, createServer)
    await assert.rejects(server.listen({ host: '127.0.0.1', port, tls }), { code: 'EADDRINUSE' })
    assert.equal(listeners.size, 1)
  })
}

function handshakeLimitContract(createServer: CreateServer): void {
  test('a handshake that takes too long is rejected', async t => {
    const { port, rejected } = await start(t, createServer, { handshakeTimeoutMs: 50 })
    assert.equal(await isServed(t, connectPlain(port, '127.0.0.1')), false)
    assert.match(rejected.join(), /timeout/)
  })

  test('beyond maxHandshakes unfinished handshakes the next one is closed, until one has ended', async t => {
    const { port, rejected } = await start(t, createServer, { maxHandshakes: 2 })
    const first = connectPlain(port, '127.0.0.1')
    const waiting = [isServed(t, first), isServed(t, connectPlain(port, '127.0.0.1'))]
    assert.equal(await isServed(t, connectPlain(port, '127.0.0.1')), false)
    assert.match(rejected.join(), /more than 2 unfinished/)
    first.destroy()
    await waiting[0]
    await waitFor('the log of both', () => rejected.length === 2)
    const client = openClient(t, port)
    assert.equal((await request(client, peer.path)).status.code, statusCodes.OK)
    // Finished handshakes do not count.
    const next = openClient(t, port)
    assert.equal((await request(next, peer.path)).status.code, statusCodes.OK)
  })

  test('unfinished handshakes of one address do not block another one', async t => {
    const { port, rejected } = await start(t, createServer, { maxHandshakesOfPeer: 2 })
    const open = (localAddress: string) => connectPlain({ port, host: '127.0.0.1', localAddress })
    for (let count = 0; count < 2; count += 1) isServed(t, open('127.0.0.2'))
    await waitFor('a rejection', async () => !(await isServed(t, open('127.0.0.2'))))
    assert.match(rejected.join(), /more than 2 unfinished handshakes of one address/)
    assert.equal((await request(openClient(t, port), peer.path)).status.code, statusCodes.OK)
  })

  test('drain does not wait for handshakes', async t => {
    const { port, server } = await start(t, createServer)
    const socket = connectPlain(port, '127.0.0.1')
    const served = isServed(t, socket)
    await new Promise(resolve => socket.once('connect', resolve))
    // When a later caller is answered, the server has accepted the earlier one.
    await request(openClient(t, port), peer.path)
    await server.drain(60_000)
    assert.equal(await served, false)
  })
}
