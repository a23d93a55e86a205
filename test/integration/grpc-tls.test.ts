import assert from 'node:assert/strict'
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { connect } from 'node:tls'
import type { ClientTls } from '@tollway/grpc/client/client-tls.ts'
import { RateLimitResponse_Code as Code } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { createAuthority } from '../../services/grpc/server/testing/contract/certificates.ts'
import { rateLimitFiles, userLimit } from '../support/rate-limit-files.ts'
import { callRateLimit, startRateLimit } from '../support/rate-limit-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { waitFor } from '../support/wait-for.ts'

const fleet = createAuthority('fleet')
const stranger = createAuthority('stranger')
const serverName = 'ratelimit.test'

/**
 * Starts the service, which requires the name `envoy.test` of its callers, and returns its certificate files.
 */
async function start(t: TestContext) {
  const folder = temporaryFolder('mtls')
  const path = (name: string) => join(folder, name)
  /** Writes like a tool for certificates: each file in one step, one after the other. */
  const write = (files: Readonly<Record<string, string>>) => {
    for (const [name, text] of Object.entries(files)) {
      writeFileSync(path(`${name}.new`), text)
      renameSync(path(`${name}.new`), path(name))
    }
  }
  const renew = (...names: readonly string[]) => {
    const { cert, key } = fleet.issue(serverName, ...names)
    write({ cert, key })
  }
  renew('first.test')
  write({ ca: fleet.ca })
  const service = await startRateLimit(t, {
    ...rateLimitFiles(userLimit('1000000/day')).env,
    BACKEND_TYPE: 'memory',
    DRAIN_DELAY: '0s',
    GRPC_SERVER_USE_TLS: 'true',
    GRPC_SERVER_TLS_CERT: path('cert'),
    GRPC_SERVER_TLS_KEY: path('key'),
    GRPC_CLIENT_TLS_CACERT: path('ca'),
    GRPC_CLIENT_TLS_SAN: 'envoy.test',
  })
  await service.serves()
  return { service, renew, write }
}

const ask = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }

function tlsAs(identity?: { readonly cert: string; readonly key: string }): ClientTls {
  const credentials = { ca: fleet.ca, ...(identity && { identity }) }
  return { serverName, credentials: () => credentials, onChange: () => () => {} }
}

const callers: readonly [string, ClientTls | undefined, boolean][] = [
  ['the right name', tlsAs(fleet.issue('envoy.test')), true],
  ['the right name among others', tlsAs(fleet.issue('pod-7.test', 'envoy.test')), true],
  ['another name', tlsAs(fleet.issue('other.test')), false],
  ['the right name from another authority', tlsAs(stranger.issue('envoy.test')), false],
  ['no certificate', tlsAs(), false],
  ['no TLS', undefined, false],
]

test('a caller needs a certificate of the right name from the right authority', async t => {
  const { service } = await start(t)
  for (const [what, tls, allowed] of callers) {
    const { shouldRateLimit } = callRateLimit(t, service.grpcPort, tls === undefined ? {} : { tls })
    const call = shouldRateLimit(ask, { timeoutMs: 5_000 })
    if (allowed) assert.equal((await call).overallCode, Code.OK, what)
    else await assert.rejects(call, { name: 'GrpcError' }, what)
  }
  const requests = (await service.stats())['ratelimit_server.ShouldRateLimit.total_requests']
  assert.equal(requests, 2, 'no other caller was served')
})

/** The names of the certificate that the server shows. */
function namesShown(port: number): Promise<string> {
  const identity = fleet.issue('envoy.test')
  return new Promise((resolve, reject) => {
    const fixed = { port, host: '127.0.0.1', ALPNProtocols: ['h2'], servername: serverName }
    const socket = connect({ ...identity, ...fixed, ca: fleet.ca }, () => {
      resolve(socket.getPeerX509Certificate()?.subjectAltName ?? '')
      socket.destroy()
    })
    socket.once('error', reject)
  })
}

test('certificates are renewed under load, and no call is dropped', async t => {
  const { service, renew, write } = await start(t)
  const shows = (name: string) => async () => (await namesShown(service.grpcPort)).includes(name)
  const tls = tlsAs(fleet.issue('envoy.test'))
  const failures: string[] = []
  let calls = 0
  let loading = true
  const note = (error: unknown) => void failures.push(String(error))
  const oneConnection = async () => {
    const { shouldRateLimit } = callRateLimit(t, service.grpcPort, { tls })
    while (loading) {
      await shouldRateLimit(ask).catch(note)
      calls += 1
    }
  }
  const newConnections = async () => {
    while (loading) {
      const { shouldRateLimit, client } = callRateLimit(t, service.grpcPort, { tls })
      await shouldRateLimit(ask).catch(note)
      client.close()
      calls += 1
    }
  }
  const load = [oneConnection(), oneConnection(), newConnections(), newConnections()]
  for (const name of ['second.test', 'third.test', 'fourth.test']) {
    const before = calls
    renew(name)
    await waitFor(`the certificate of ${name}`, shows(name))
    await waitFor('calls after that', () => calls > before + 50)
  }
  write({ cert: 'half written' })
  await service.program.said('reason="GRPC_SERVER_TLS_CERT')
  assert.ok(await shows('fourth.test')(), 'the last good one stays')
  renew('fifth.test')
  await waitFor('the next good one', shows('fifth.test'))
  loading = false
  await Promise.all(load)
  assert.deepEqual(failures, [])
  const stats = await service.stats()
  assert.ok((stats['certs.load_attempts'] ?? 0) >= 6)
  assert.ok((stats['certs.load_failures'] ?? 0) >= 1)
})
