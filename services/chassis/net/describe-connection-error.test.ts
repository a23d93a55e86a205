import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:https'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { createServer as createSecureServer } from 'node:tls'
import { makeCertificate } from '../../../test/support/certificate.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { describeConnectionError } from './describe-connection-error.ts'

/** These tests use real sockets, because the error codes and their nesting come from Node. */
describe('describeConnectionError', () => {
  const servers: Server[] = []
  const ports = { refused: 0, silent: 0, closing: 0, noise: 0, secure: 0 }
  let ca = ''

  async function listen(server: Server): Promise<number> {
    servers.push(server)
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return (server.address() as AddressInfo).port
  }

  before(async () => {
    const { cert, key } = await makeCertificate(temporaryFolder('tls'), 'other', 'DNS:other.test')
    ca = cert
    ports.silent = await listen(createServer())
    ports.closing = await listen(createServer(socket => socket.destroy()))
    ports.noise = await listen(createServer(socket => socket.end('SSH-2.0-x\r\n')))
    ports.secure = await listen(createSecureServer({ cert, key }))
    ports.refused = await listen(createServer())
    servers.pop()?.close()
  })
  after(() => {
    for (const server of servers) server.close()
  })

  const fetched = (url: string, timeoutMs = 60_000) => fetch(url, { signal: AbortSignal.timeout(timeoutMs) })

  for (const [name, call, expected] of [
    ['a closed port', () => fetched(`http://127.0.0.1:${ports.refused}`), 'connection refused'],
    ['a closed port of a name', () => fetched(`http://localhost:${ports.refused}`), 'connection refused'],
    ['a silent port', () => fetched(`http://127.0.0.1:${ports.silent}`, 300), 'timed out'],
    ['a name that no host has', () => fetched('http://nothing.invalid'), 'host not found'],
    [
      'a port that closes',
      () => fetched(`http://127.0.0.1:${ports.closing}`),
      'connection closed without an answer',
    ],
    ['another protocol', () => fetched(`http://127.0.0.1:${ports.noise}`), 'the answer is not HTTP'],
    [
      'a port without TLS',
      () => fetched(`https://127.0.0.1:${ports.noise}`),
      'TLS failed: the port does not speak TLS',
    ],
    [
      'an unknown authority',
      () => fetched(`https://127.0.0.1:${ports.secure}`),
      'TLS failed: no trusted authority issued the certificate',
    ],
    [
      'a certificate of another host',
      () => once(request({ host: '127.0.0.1', port: ports.secure, ca }).end(), 'response'),
      "TLS failed: Hostname/IP does not match certificate's altnames: ",
    ],
    [
      'a socket with several addresses',
      () => once(connect({ host: 'localhost', port: ports.refused }), 'connect'),
      'connection refused',
    ],
  ] as const)
    it(`describes ${name}`, async () => {
      const error = await call().then(
        () => undefined,
        (cause: unknown) => cause,
      )
      assert.ok(error instanceof Error)
      const found = describeConnectionError(error)
      assert.ok(found.startsWith(expected), found)
    })
})
