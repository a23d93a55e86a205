import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type Certificate, makeCertificate } from '../../../../../test/support/certificate.ts'
import { freePorts } from '../../../../../test/support/free-ports.ts'
import { type RedisServer, startRedis } from '../../../../../test/support/redis-server.ts'
import { missingProgram } from '../../../../../test/support/require-server.ts'
import { temporaryFolder } from '../../../../../test/support/temporary-folder.ts'
import { ask, connected, connectTo, waitForProblem } from '../../testing/connect-to-redis.ts'

const skip = missingProgram('redis-server') || missingProgram('openssl')

describe('a connection to Redis over TLS', { skip }, () => {
  let folder = ''
  let server: Certificate
  let stranger: Certificate
  let redis: RedisServer
  let endpoint = { host: '127.0.0.1', port: 0 }
  before(async () => {
    folder = temporaryFolder('tollway-tls')
    server = await makeCertificate(folder, 'redis', 'DNS:redis.test,IP:127.0.0.1')
    stranger = await makeCertificate(folder, 'stranger', 'DNS:elsewhere.test')
    const [port = 0] = await freePorts(1)
    endpoint = { host: '127.0.0.1', port }
    redis = await startRedis([
      ...['--tls-port', String(port), '--tls-cert-file', server.certFile, '--tls-key-file', server.keyFile],
      ...['--tls-ca-cert-file', server.certFile, '--tls-auth-clients', 'optional'],
    ])
  })
  after(async () => {
    await redis?.stop()
  })

  test('short and long requests are answered', async t => {
    const connection = await connected(t, { endpoint, tls: { ca: server.cert } })
    const long = 'x'.repeat(300_000)
    const first = ask(connection, `SET a ${long}`, 'GET a', 'INCRBY n 1')
    const second = ask(connection, 'INCRBY n 1')
    assert.deepEqual((await first).replies, ['OK', long, 1])
    assert.deepEqual((await second).replies, [2])
  })

  test('the certificate must have the expected name', async t => {
    await connected(t, { endpoint, tls: { ca: server.cert, servername: 'redis.test' } })
    await redis.command('CONFIG', 'RESETSTAT')
    const tls = { ca: server.cert, servername: 'elsewhere.test' }
    const rejected = connectTo(t, { endpoint, tls, password: 'hunter2' })
    await waitForProblem(t, rejected, /does not match certificate's altnames/)
    // An untrusted server does not receive the password.
    assert.doesNotMatch(await redis.command('INFO', 'commandstats'), /cmdstat_(auth|ping)/)
    await connected(t, { endpoint, tls: { ...tls, verifyName: false } })
  })

  test('an unknown certificate authority is rejected, whatever the name', async t => {
    const connection = connectTo(t, { endpoint, tls: { ca: stranger.cert, verifyName: false } })
    await waitForProblem(t, connection, /self-signed certificate/)
  })

  test('a server that requires a client certificate', async t => {
    await redis.command('CONFIG', 'SET', 'tls-auth-clients', 'yes')
    t.after(() => redis.command('CONFIG', 'SET', 'tls-auth-clients', 'optional'))
    const { cert, key } = server
    await connected(t, { endpoint, tls: { ca: cert, cert, key } })
    const without = connectTo(t, { endpoint, tls: { ca: cert } })
    await waitForProblem(t, without, /certificate required|handshake|ECONNRESET|lost/)
    assert.equal(without.healthy, false)
  })

  test('a server without TLS is reported as such before the timeout', async t => {
    const plain = { host: '127.0.0.1', port: redis.port }
    const connection = connectTo(t, { endpoint: plain, tls: { ca: server.cert }, timeoutMs: 200 })
    await waitForProblem(
      t,
      connection,
      /wrong version number|packet length|no connection to Redis after 200 ms/,
    )
  })
})
