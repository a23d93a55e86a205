import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { connect } from 'node:tls'
import { type Log, silentLog } from '@tollway/chassis/log/log.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { createGrpcServer } from './create-server.ts'
import { openServerTls, type ServerTlsSettings } from './open-server-tls.ts'
import { createAuthority } from './testing/contract/certificates.ts'

const fleet = createAuthority('fleet')

/** Creates the files of a server, with the settings that name them. */
function place() {
  const folder = temporaryFolder('server-tls')
  const path = (name: string) => join(folder, name)
  const write = (name: string) => {
    const { cert, key } = fleet.issue(name)
    writeFileSync(path('key'), key)
    writeFileSync(path('cert'), cert)
  }
  write('one.test')
  writeFileSync(path('ca'), fleet.ca)
  const rejections: string[] = []
  const settings: ServerTlsSettings = {
    grpcServerTls: true,
    grpcServerCertFile: path('cert'),
    grpcServerKeyFile: path('key'),
    grpcClientCaFile: path('ca'),
    grpcClientSan: '',
  }
  const log: Log = { ...silentLog, debug: (_, fields) => void rejections.push(String(fields?.['error'])) }
  return { settings, log, write, rejections }
}

async function listen(
  t: TestContext,
  settings: ServerTlsSettings,
  log = silentLog,
  onLoad = (_succeeded: boolean) => {},
): Promise<number> {
  const tls = openServerTls(settings, { log, onLoad })
  assert.ok(tls)
  const server = createGrpcServer({ methods: [], onDefect: assert.fail })
  t.after(() => server.drain(0))
  const bound = await server.listen({ host: '127.0.0.1', port: 0, tls })
  assert.ok('port' in bound)
  return bound.port
}

/** Calls as `caller`. Resolves with the name in the server's certificate, or with `rejected`. */
function call(port: number, caller?: string): Promise<string> {
  const identity = caller === undefined ? {} : fleet.issue(caller)
  const fixed = { port, host: '127.0.0.1', ALPNProtocols: ['h2'], checkServerIdentity: () => undefined }
  return new Promise(resolve => {
    const socket = connect({ ...identity, ...fixed, ca: fleet.ca })
    const end = (answer: string) => {
      socket.destroy()
      resolve(answer)
    }
    // An HTTP/2 server sends its first bytes as soon as it has accepted the caller.
    socket.once('data', () => end(socket.getPeerX509Certificate()?.subjectAltName ?? ''))
    socket.once('error', () => end('rejected'))
    socket.once('close', () => end('rejected'))
    socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', 'latin1')
  })
}

test('callers need a certificate, and the right name if one is configured', async t => {
  const { settings, log, rejections } = place()
  const open = await listen(t, { ...settings, grpcClientCaFile: '' })
  assert.equal(await call(open), 'DNS:one.test')
  const mutual = await listen(t, settings)
  assert.equal(await call(mutual, 'any.test'), 'DNS:one.test')
  assert.equal(await call(mutual), 'rejected')
  const named = await listen(t, { ...settings, grpcClientSan: 'envoy.test' }, log)
  assert.equal(await call(named, 'envoy.test'), 'DNS:one.test')
  assert.equal(await call(named, 'any.test'), 'rejected')
  assert.match(rejections.at(-1) ?? '', /^the certificate is not for envoy\.test, but for DNS:any\.test$/)
})

test('a renewed certificate is sent to the next caller', async t => {
  const { settings, write } = place()
  const loads: boolean[] = []
  const port = await listen(t, settings, silentLog, succeeded => void loads.push(succeeded))
  assert.deepEqual(loads, [true])
  write('two.test')
  await waitFor('the new certificate', async () => (await call(port, 'any.test')) === 'DNS:two.test')
  const before = loads.length
  writeFileSync(settings.grpcServerCertFile, 'none')
  await waitFor('the rejection', () => loads.length > before)
  assert.deepEqual(loads.slice(before), [false])
  assert.equal(await call(port, 'any.test'), 'DNS:two.test')
})

test('settings that need others are rejected without them', () => {
  const { settings } = place()
  const wrong: readonly [Partial<ServerTlsSettings>, RegExp][] = [
    [{ grpcServerTls: false }, /^Error: GRPC_CLIENT_TLS_CACERT: needs GRPC_SERVER_USE_TLS=true$/],
    [{ grpcServerKeyFile: '' }, /^Error: GRPC_SERVER_USE_TLS: needs GRPC_SERVER_TLS_CERT and /],
    [
      { grpcClientCaFile: '', grpcClientSan: 'a' },
      /^Error: GRPC_CLIENT_TLS_SAN: needs GRPC_CLIENT_TLS_CACERT$/,
    ],
    [
      { grpcClientCaFile: settings.grpcServerKeyFile },
      /^Error: GRPC_CLIENT_TLS_CACERT: .* contains no certificate in PEM$/,
    ],
  ]
  for (const [change, expected] of wrong) {
    assert.throws(() => openServerTls({ ...settings, ...change }, { log: silentLog }), expected)
  }
  const without = { ...settings, grpcServerTls: false, grpcClientCaFile: '' }
  assert.equal(openServerTls(without, { log: silentLog }), undefined)
})
