import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { ClientTls } from '@tollway/grpc/client/client-tls.ts'
import { createAuthority } from '../../services/grpc/server/testing/contract/certificates.ts'
import { missingReference } from '../differential/start-reference.ts'
import {
  compare,
  pageCommands,
  peersOf,
  request,
  requestsFile,
  startCompared,
  startCompareProxy,
} from '../support/compare-command.ts'
import { callRateLimit } from '../support/rate-limit-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { missingProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { waitFor } from '../support/wait-for.ts'

const [fleet, strangers] = [createAuthority('fleet'), createAuthority('strangers')]

/** Writes a certificate of each of these names, its key, and the authorities. Returns their paths by name. */
function writeFiles(...names: readonly string[]) {
  const folder = temporaryFolder('compare-tls')
  const path = (name: string) => join(folder, name)
  for (const name of names) {
    const { cert, key } = fleet.issue(`${name}.test`, 'localhost')
    writeFileSync(path(`${name}.crt`), cert)
    writeFileSync(path(`${name}.key`), key)
  }
  writeFileSync(path('ca.crt'), fleet.ca)
  writeFileSync(path('strangers.crt'), strangers.ca)
  return path
}

function tlsAs(...names: readonly string[]): ClientTls {
  const { cert, key } = fleet.issue(...names)
  const credentials = { ca: fleet.ca, ...(names.length > 0 && { identity: { cert, key } }) }
  return { serverName: 'proxy.test', credentials: () => credentials, onChange: () => () => {} }
}

/** Starts both services, which need client certificates, with one Redis. */
async function startServices(t: TestContext) {
  const path = writeFiles('reference', 'candidate', 'proxy')
  const redis = await startRedis()
  t.after(() => redis.stop())
  const [reference, candidate] = await Promise.all(
    (['reference', 'candidate'] as const).map(kind => {
      const env = {
        CACHE_KEY_PREFIX: kind,
        GRPC_SERVER_USE_TLS: 'true',
        GRPC_SERVER_TLS_CERT: path(`${kind}.crt`),
        GRPC_SERVER_TLS_KEY: path(`${kind}.key`),
        GRPC_CLIENT_TLS_CACERT: path('ca.crt'),
      }
      return startCompared(t, { kind, limit: '5/day', redisPort: redis.port, env })
    }),
  )
  assert.ok(reference !== undefined && candidate !== undefined)
  const files = ['ca.crt', 'proxy.crt', 'proxy.key'].map(name => [name, path(name)])
  const [, , mutual = []] = pageCommands({
    'ratelimit:8081': `localhost:${reference.grpcPort}`,
    'tollway-ratelimit:8081': `localhost:${candidate.grpcPort}`,
    ...Object.fromEntries(files),
  })
  const listenAt = mutual.indexOf('--listen')
  return { path, mutual, peers: mutual.slice(0, listenAt), plain: peersOf(reference, candidate), reference }
}

test('options of TLS without a valid file are rejected with the reason', async () => {
  const path = writeFiles('envoy', 'proxy')
  const peers = ['--reference', '127.0.0.1:1', '--candidate', '127.0.0.1:1']
  const replay = [...peers, '--requests', requestsFile([request('a')])]
  const listen = [...peers, '--listen', '127.0.0.1:0']
  const table: [string[], RegExp][] = [
    [[...replay, '--reference-ca', '/missing'], /--reference-ca: \/missing: cannot be read/],
    [[...replay, '--reference-ca', path('envoy.key')], /--reference-ca: .*: contains no certificate/],
    [[...replay, '--reference-cert', path('envoy.crt')], /--reference-key: is needed, too/],
    [[...replay, '--listen-cert', path('envoy.crt')], /--listen-cert requires --listen/],
    [[...replay, '--reference-tls'], /--reference 127\.0\.0\.1:1: connection refused$/m],
    [[...listen, '--listen-client-ca', path('ca.crt')], /missing option --listen-cert/],
    [[...listen, '--listen-cert', path('envoy.crt')], /--listen-key: is needed, too/],
    [
      ['--reference', 'localhost:1', ...replay.slice(2), '--reference-tls'],
      /--reference localhost:1: connection refused$/m,
    ],
    [
      [...listen, '--listen-cert', path('envoy.crt'), '--listen-key', path('proxy.key')],
      /--listen-key: .*: is not the key of the first certificate/,
    ],
    [[...listen, '--candidate-ca', '/missing'], /--candidate-ca: \/missing: cannot be read/],
  ]
  for (const [args, pattern] of table) {
    const { code, out, err } = await compare(...args)
    assert.deepEqual([code, out], [2, ''], args.join(' '))
    assert.match(err, pattern)
  }
})

const skip = missingReference() || missingProgram('redis-server')

test('both services and the callers of the proxy have TLS with client certificates', { skip }, async t => {
  const { path, peers, mutual, reference } = await startServices(t)
  const replayed = await compare(...peers, '--requests', requestsFile([request('a'), request('b')]))
  assert.deepEqual([replayed.code, replayed.err], [0, ''], replayed.out)
  assert.match(replayed.out, /^2 requests: 2 same, 0 different\n/)

  const proxy = await startCompareProxy(t, mutual)
  const { shouldRateLimit } = callRateLimit(t, proxy.port, { tls: tlsAs('envoy.test') })
  const answer = await shouldRateLimit(request('carol'))
  assert.equal(answer.statuses[0]?.currentLimit?.requestsPerUnit, 5)
  await Promise.all(Array.from({ length: 50 }, (_, call) => shouldRateLimit(request(`user-${call}`))))
  for (const tls of [undefined, tlsAs()]) {
    const untrusted = callRateLimit(t, proxy.port, { tls })
    await assert.rejects(untrusted.shouldRateLimit(request('carol'), { timeoutMs: 5_000 }), {
      name: 'GrpcError',
    })
  }
  await waitFor('the reason', () => /compare: caller 127\.0\.0\.1: /.test(proxy.program.output()))
  const withoutTls = async () => {
    const socket = connect(proxy.port, '127.0.0.1').resume()
    socket.end('GET / HTTP/1.1\r\n\r\n')
    await once(socket, 'close')
  }
  await Promise.all(Array.from({ length: 30 }, withoutTls))
  const lines = proxy.program.output().match(/^compare: caller /gm) ?? []
  assert.ok(lines.length < 10, `a problem of many connections is printed once: ${lines.length} lines`)

  await reference.program.end('SIGKILL')
  await waitFor('the reason', async () => {
    // A call on the lost connection fails, too, and only the next call opens another connection.
    await assert.rejects(shouldRateLimit(request('carol'), { timeoutMs: 5_000 }), { name: 'GrpcError' })
    return /compare: connect to the reference .*: connection refused/.test(proxy.program.output())
  })
  for (const line of readFileSync(path('proxy.key'), 'utf8').trimEnd().split('\n')) {
    assert.ok(!proxy.program.output().includes(line), 'the key of the proxy is printed')
  }
  const { code, report } = await proxy.end()
  assert.deepEqual([code, report.same, report.different], [0, 51, 0], JSON.stringify(report))
})

test('a service with another certificate is rejected with the reason', { skip }, async t => {
  const { path, peers, plain: unencrypted } = await startServices(t)
  const requests = ['--requests', requestsFile([request('a')])]
  const table: [string[], RegExp][] = [
    [['--reference-server-name', 'other.test'], /--reference localhost.*: .*other\.test/],
    [['--candidate-server-name', 'other.test'], /--candidate localhost.*: .*other\.test/],
    [['--reference-ca', path('strangers.crt')], /--reference localhost.*: .*certificate/],
  ]
  for (const [args, pattern] of table) {
    const { code, out, err } = await compare(...peers, ...requests, ...args)
    assert.deepEqual([code, out], [2, ''], args.join(' '))
    assert.match(err, pattern)
  }
  const plain = await compare(...unencrypted, ...requests)
  assert.equal(plain.code, 2)
  assert.match(
    plain.err,
    /--reference 127.* is not a gRPC port: .*; if the port has TLS, use --reference-tls/,
  )
})
