import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { createAuthority } from '../../grpc/server/testing/contract/certificates.ts'
import { createStats } from '../stats/stats.ts'
import { openGrpcTls } from './grpc-tls.ts'

const without = {
  grpcServerTls: false,
  grpcServerCertFile: '',
  grpcServerKeyFile: '',
  grpcClientCaFile: '',
  grpcClientSan: '',
}

test('each load of the certificate files is counted', async () => {
  const folder = temporaryFolder('grpc-tls')
  const [certFile, keyFile] = [join(folder, 'cert'), join(folder, 'key')]
  const { cert, key } = createAuthority('fleet').issue('one.test')
  writeFileSync(certFile, cert)
  writeFileSync(keyFile, key)
  const stats = createStats()
  const counts = () => ['load_attempts', 'load_failures'].map(name => stats.counter(`certs.${name}`).value)
  const settings = {
    ...without,
    grpcServerTls: true,
    grpcServerCertFile: certFile,
    grpcServerKeyFile: keyFile,
  }
  assert.ok(openGrpcTls(settings, stats, silentLog))
  assert.deepEqual(counts(), [1, 0])
  writeFileSync(certFile, 'none')
  await waitFor('the failure', () => counts().join() === '2,1')
  writeFileSync(certFile, createAuthority('other').issue('one.test').cert)
  await waitFor('the certificate of another key', () => counts().join() === '3,2')
})

test('without TLS no load is counted', () => {
  const stats = createStats()
  assert.equal(openGrpcTls(without, stats, silentLog), undefined)
  assert.equal(stats.counter('certs.load_attempts').value, 0)
})
