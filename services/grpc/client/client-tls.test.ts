import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createGrpcServer } from '../server/create-server.ts'
import { createAuthority } from '../server/testing/contract/certificates.ts'
import { textCodec, texts, waitFor } from '../server/testing/contract/support.ts'
import type { ServerTls } from '../server.ts'
import { GrpcError, statusCodes } from '../status.ts'
import { createGrpcClient } from './client.ts'
import type { ClientTls } from './client-tls.ts'

type ClientTlsCredentials = ReturnType<ClientTls['credentials']>

const path = '/test.Test/Echo'
const echo = texts.unary(path, text => text)
const fleet = createAuthority('fleet')
const strangers = createAuthority('strangers')
const member: ClientTlsCredentials = { ca: fleet.ca, identity: fleet.issue('member.test') }

async function start(t: TestContext, more: Partial<ServerTls> = {}) {
  const credentials = fleet.issue('server.test', 'other.test')
  const tls = { credentials: () => credentials, requireClientCert: true, onChange: () => () => {}, ...more }
  const server = createGrpcServer({ methods: [echo], onDefect: assert.fail })
  t.after(() => server.drain(0))
  const bound = await server.listen({ host: '127.0.0.1', port: 0, tls })
  assert.ok('port' in bound)
  return bound.port
}

/** Opens a client whose credentials the test can change. */
function openClient(t: TestContext, port: number, tls: Partial<ClientTls> = {}) {
  let current = tls.credentials?.() ?? member
  const listeners = new Set<() => void>()
  const client = createGrpcClient(`127.0.0.1:${port}`, {
    tls: {
      serverName: 'server.test',
      onChange(listener) {
        listeners.add(listener)
        return () => listeners.delete(listener)
      },
      ...tls,
      credentials: () => current,
    },
  })
  t.after(() => client.close())
  return {
    client,
    listeners,
    change(credentials: ClientTlsCredentials): void {
      current = credentials
      for (const listener of listeners) listener()
    },
    /** Makes a call. Resolves with `OK`, or the name of the error's status. */
    async call(): Promise<string> {
      try {
        return await client.unary(path, textCodec, 'OK', { timeoutMs: 5000 })
      } catch (error) {
        assert.ok(error instanceof GrpcError, String(error))
        return Object.entries(statusCodes).find(([, code]) => code === error.code)?.[0] ?? ''
      }
    },
  }
}

const cases: readonly [string, Partial<ClientTls>, string][] = [
  ['a member', {}, 'OK'],
  ['another name of the server', { serverName: 'other.test' }, 'OK'],
  ['a name that the server does not have', { serverName: 'third.test' }, 'UNAVAILABLE'],
  [
    'a server of another certificate authority',
    { credentials: () => ({ ...member, ca: strangers.ca }) },
    'UNAVAILABLE',
  ],
  ['no client certificate', { credentials: () => ({ ca: fleet.ca }) }, 'UNAVAILABLE'],
  [
    'an identity of another certificate authority',
    { credentials: () => ({ ca: fleet.ca, identity: strangers.issue('member.test') }) },
    'UNAVAILABLE',
  ],
  ['a verifyServer that rejects the server', { verifyServer: () => new Error('no') }, 'UNAVAILABLE'],
  [
    'a verifyServer that checks a name',
    { verifyServer: certificate => (certificate.checkHost('other.test') ? undefined : new Error('no')) },
    'OK',
  ],
  ['invalid credentials', { credentials: () => ({ ...member, ca: 'not PEM' }) }, 'UNAVAILABLE'],
]
for (const [what, tls, expected] of cases) {
  test(`a client with TLS: ${what} is ${expected}`, async t => {
    assert.equal(await openClient(t, await start(t), tls).call(), expected)
  })
}

test('a client sends no certificate if the server requests none', async t => {
  const port = await start(t, { requireClientCert: false })
  assert.equal(await openClient(t, port, { credentials: () => ({ ca: fleet.ca }) }).call(), 'OK')
})

test('changed credentials apply to the next connection, and a closed client ignores changes', async t => {
  const port = await start(t)
  const { call, change, client, listeners } = openClient(t, port, {
    credentials: () => ({ ca: fleet.ca, identity: strangers.issue('member.test') }),
  })
  assert.equal(await call(), 'UNAVAILABLE')
  change(member)
  // The client retries a failed connection after a moment; until then calls fail at once.
  await waitFor('a call that succeeds', async () => (await call()) === 'OK')
  change({ ...member, ca: strangers.ca })
  assert.equal(await call(), 'OK', 'the open connection stays')
  client.close()
  assert.equal(listeners.size, 0)
})
