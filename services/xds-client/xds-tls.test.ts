import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { type Authority, createAuthority } from '../grpc/server/testing/contract/certificates.ts'
import { feedSettings } from './feed-settings.ts'
import { startServer } from './testing/management-server.ts'
import { response, startFeed } from './testing/start-feed.ts'
import { openXdsTls } from './xds-tls.ts'

const fleet = createAuthority('fleet')
const strangers = createAuthority('strangers')

/** Writes the TLS files of a client, and returns the settings that name them. */
function filesOf(member: Authority, ca = fleet.ca) {
  const folder = temporaryFolder('xds-tls')
  const path = (name: string) => join(folder, name)
  const write = (authority: Authority) => {
    const { cert, key } = authority.issue('pod.test')
    writeFileSync(path('key'), key)
    writeFileSync(path('cert'), cert)
  }
  write(member)
  writeFileSync(path('ca'), ca)
  return { options: { xdsCertFile: path('cert'), xdsKeyFile: path('key'), xdsCaFile: path('ca') }, write }
}

const secure = () => {
  const credentials = fleet.issue('feed.test', '*.wild.test')
  return { credentials: () => credentials, requireClientCert: true, onChange: () => () => {} }
}

const fixed = { xdsServerSan: 'feed.test', xdsServer: { host: '127.0.0.1', port: 0 } }

type XdsTlsSettings = Parameters<typeof openXdsTls>[0]

const open = (settings: XdsTlsSettings) => openXdsTls(settings, assert.fail)

test('a feed with mutual TLS receives configurations', async t => {
  const server = await startServer(t, { tls: secure() })
  const tls = open({ ...fixed, ...filesOf(fleet).options })
  const { inForce } = startFeed(t, server.address, { tls })
  const stream = await server.stream(0)
  await stream.heard()
  stream.send(response('v1', 'a:1'))
  await stream.heard()
  assert.equal(inForce(), 'a:1')
})

test('a name that a wildcard of the certificate matches is accepted', async t => {
  const server = await startServer(t, { tls: secure() })
  const tls = open({ ...fixed, ...filesOf(fleet).options, xdsServerSan: 'a.wild.test' })
  startFeed(t, server.address, { tls })
  await (await server.stream(0)).heard()
})

const rejected: readonly [string, (t: TestContext) => Partial<XdsTlsSettings>, RegExp][] = [
  ['a server of another name', () => ({ ...filesOf(fleet).options, xdsServerSan: 'x.test' }), /x\.test/],
  ['a server named by its address only', () => ({ ...filesOf(fleet).options, xdsServerSan: '' }), /127/],
  ['a server with another certificate authority', () => filesOf(fleet, strangers.ca).options, /certificate/],
  ['a certificate of another authority', () => filesOf(strangers).options, /./],
  ['no certificate', () => ({ ...filesOf(fleet).options, xdsCertFile: '', xdsKeyFile: '' }), /./],
  [
    'a server that the system does not trust',
    () => ({ ...filesOf(fleet).options, xdsCaFile: '' }),
    /certificate/,
  ],
]

for (const [what, options, reason] of rejected) {
  test(`no configuration is received over a connection with ${what}`, async t => {
    const server = await startServer(t, { tls: secure() })
    const files = { xdsCertFile: '', xdsKeyFile: '', xdsCaFile: '' }
    const tls = open({ ...fixed, ...files, ...options(t) })
    const { warnings } = startFeed(t, server.address, { tls })
    await waitFor('the complaint', () => warnings.length > 0)
    assert.match(warnings[0] ?? '', /^connect to management server failed/)
    assert.match(warnings[0] ?? '', reason)
    assert.equal(server.streams.length, 0)
  })
}

test('a renewed certificate is used by the next connection', async t => {
  const server = await startServer(t, { tls: secure() })
  const { options, write } = filesOf(strangers)
  const { warnings } = startFeed(t, server.address, { tls: open({ ...fixed, ...options }) })
  await waitFor('the complaint', () => warnings.length > 0)
  write(fleet)
  await (await server.stream(0)).heard()
})

test('files of a missing Secret are waited for', async t => {
  const server = await startServer(t, { tls: secure() })
  const folder = temporaryFolder('xds-tls')
  const path = (name: string) => join(folder, name)
  const options = { xdsCertFile: path('tls.crt'), xdsKeyFile: path('tls.key'), xdsCaFile: path('ca.crt') }
  const { warnings } = startFeed(t, server.address, { tls: open({ ...fixed, ...options }) })
  await waitFor('the complaint', () => warnings.length > 0)
  assert.match(warnings[0] ?? '', /^connect to .*CONFIG_GRPC_XDS_CLIENT_TLS_CERT: .*tls\.crt: cannot be read/)
  const { cert, key } = fleet.issue('pod.test')
  mkdirSync(path('..first'))
  for (const [name, content] of Object.entries({ 'tls.crt': cert, 'tls.key': key, 'ca.crt': fleet.ca })) {
    writeFileSync(join(path('..first'), name), content)
  }
  symlinkSync('..first', path('..data'))
  for (const name of ['tls.crt', 'tls.key', 'ca.crt']) symlinkSync(join('..data', name), path(name))
  await (await server.stream(0)).heard()
})

test('invalid settings are rejected at the start', () => {
  const { options } = filesOf(fleet)
  assert.throws(
    () => open({ ...fixed, ...options, xdsServerSan: 'spiffe://a/b' }),
    /^Error: CONFIG_GRPC_XDS_SERVER_TLS_SAN: "spiffe:\/\/a\/b" is neither a DNS name nor an IP address$/,
  )
  assert.throws(
    () => open({ ...fixed, ...options, xdsKeyFile: '' }),
    /^Error: CONFIG_GRPC_XDS_CLIENT_TLS_KEY: is needed, too$/,
  )
})

test('additional headers are sent with every stream, and are not logged', async t => {
  const server = await startServer(t)
  const headers = feedSettings.xdsHeaders.kind.parse('Authorization:Bearer hunter2, x-tenant:shop:1')
  assert.ok(headers)
  const { warnings } = startFeed(t, server.address, { metadata: headers })
  for (const index of [0, 1]) {
    const stream = await server.stream(index)
    await stream.heard()
    assert.deepEqual(stream.metadata.get('authorization'), ['Bearer hunter2'])
    assert.deepEqual(stream.metadata.get('x-tenant'), ['shop:1'])
    stream.end()
  }
  await waitFor('a complaint', () => warnings.length > 0)
  assert.doesNotMatch(warnings.join('\n'), /hunter2/)
})

const headerCases = `
                  -> {}
a:b               -> {"a":["b"]}
A-1_x.y: b c ,d:e -> {"a-1_x.y":["b c"],"d":["e"]}
a                 -> rejected
a:                -> rejected
a b:c             -> rejected
a:b,A:c           -> rejected
a-bin:c           -> rejected
grpc-timeout:1s   -> rejected
grpc-other:1s     -> rejected
content-type:x    -> rejected
:path:x           -> rejected
a:é               -> rejected
a:b\u0001c        -> rejected
`

test('headers that the transport would reject are rejected as a setting', () => {
  for (const line of headerCases.split('\n').filter(text => text !== '')) {
    const [text = '', expected] = line.split('->').map(part => part.trim())
    const parsed = feedSettings.xdsHeaders.kind.parse(text)
    assert.equal(
      parsed === undefined ? 'rejected' : JSON.stringify(Object.fromEntries(parsed)),
      expected,
      line,
    )
  }
})
