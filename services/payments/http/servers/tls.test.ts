import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { connect, type TLSSocket } from 'node:tls'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { TlsFiles } from '@tollway/chassis/net/tls.ts'
import { type Certificate, makeCertificate } from '../../../../test/support/certificate.ts'
import { missingProgram } from '../../../../test/support/require-server.ts'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import type { Payments } from '../../operations/operation.ts'
import { createApiServer } from './api-server.ts'
import { createProvisionServer } from './provision-server.ts'

const skip = missingProgram('openssl')

/** `payments` is empty, because the tests concern only the TLS handshake. */
const shared = {
  payments: {} as Payments,
  log: silentLog,
  clock: systemClock,
  randomBytes,
  onAnswer: () => {},
}

async function makeCertificates() {
  const folder = temporaryFolder('tollway-tls')
  const make = (name: string) => makeCertificate(folder, name, 'DNS:localhost,IP:127.0.0.1')
  return { folder, first: await make('first'), second: await make('second') }
}

function handshake(port: number, options: object = {}): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...options }, () =>
      resolve(socket),
    )
    socket.once('error', reject)
  })
}

/** Resolves with the response of `/healthz`; empty if the connection ends without one. */
async function ask(port: number, options: object = {}): Promise<string> {
  const socket = await handshake(port, options)
  let answer = ''
  socket.setEncoding('utf8').write('GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n')
  try {
    for await (const chunk of socket) answer += chunk
  } catch {
    return ''
  }
  return answer
}

test('the next connection gets a replaced certificate', { skip }, async () => {
  const { folder, first, second } = await makeCertificates()
  const [cert, key] = [join(folder, 'tls.crt'), join(folder, 'tls.key')]
  const install = async (from: Certificate) => {
    await copyFile(from.certFile, cert)
    await copyFile(from.keyFile, key)
  }
  await install(first)
  const files = { cert: { setting: 'TLS_CERT', path: cert }, key: { setting: 'TLS_KEY', path: key } }
  const tls = new TlsFiles({ ...files, onReloadFailed: () => {}, pollMs: 20 })
  const changed = Promise.withResolvers<void>()
  const server = createApiServer({
    ...shared,
    tls,
    signUps: null,
    ready: async () => true,
    onReplay: () => {},
    guard: null,
  })
  tls.onChange(changed.resolve)
  const port = await server.listen({ host: '127.0.0.1', port: 0 })
  try {
    const answer = await ask(port, { ca: first.cert, rejectUnauthorized: true })
    assert.match(answer, /^HTTP\/1.1 200 /)
    assert.match(answer, /^strict-transport-security: max-age=31536000\r$/im)
    await install(second)
    await changed.promise
    assert.match(await ask(port, { ca: second.cert, rejectUnauthorized: true }), /^HTTP\/1.1 200 /)
  } finally {
    await server.close(100)
    tls.close()
  }
})

test('provisioning accepts only clients with a certificate of its authority', { skip }, async () => {
  const { first: own, second: stranger } = await makeCertificates()
  const tls = new TlsFiles({
    cert: { setting: 'CERT', path: own.certFile },
    key: { setting: 'KEY', path: own.keyFile },
    ca: { setting: 'CA', path: own.certFile },
    onReloadFailed: () => {},
  })
  const server = createProvisionServer({ ...shared, tls, token: null, demandsCertificate: true })
  const port = await server.listen({ host: '127.0.0.1', port: 0 })
  try {
    assert.match(await ask(port, { cert: own.cert, key: own.key }), /^HTTP\/1.1 404 /)
    assert.equal(await ask(port), '')
    assert.equal(await ask(port, { cert: stranger.cert, key: stranger.key }), '')
  } finally {
    await server.close(100)
    tls.close()
  }
})
