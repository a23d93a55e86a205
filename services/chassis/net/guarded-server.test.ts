import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { hostname, networkInterfaces } from 'node:os'
import { after, before, describe, test } from 'node:test'
import { createGuardedServer } from './guarded-server.ts'
import { closeHttp, listenHttp } from './listen-http.ts'

const loopback = createGuardedServer((_, response) => response.end('OK'))
const everywhere = createGuardedServer((_, response) => response.end('OK'))
let ports: { readonly loopback: number; readonly everywhere: number }

before(async () => {
  ports = {
    loopback: await listenHttp(loopback, { host: '127.0.0.1', port: 0 }),
    everywhere: await listenHttp(everywhere, { host: '0.0.0.0', port: 0 }),
  }
})
after(() => Promise.all([loopback, everywhere].map(server => closeHttp(server, 0))))

/** Sends the bytes of a request, and resolves with the status and the body of the answer. */
async function send(
  port: number,
  start: string,
  headers: readonly string[],
  address = '127.0.0.1',
): Promise<string> {
  const socket = connect(port, address)
  socket.end(`${[start, ...headers, 'Connection: close', '', ''].join('\r\n')}`)
  let answer = ''
  for await (const piece of socket.setEncoding('utf8')) answer += piece
  const [head = '', body = ''] = answer.split('\r\n\r\n')
  return `${head.split(' ')[1]} ${body.trim()}`
}

const get = 'GET / HTTP/1.1'

const localHosts = [
  '127.0.0.1',
  'LOCALHOST:6070',
  '[::1]:80',
  'tollway.localhost',
  'localhost.',
  '127.9.9.9:1',
  '10.0.0.1:6070',
  '[::2]',
  hostname(),
]
const foreignHosts = [
  'evil.example',
  '127.0.0.1.evil.example:6070',
  'localhost.evil.example',
  '10.0.0.1.evil.example',
  '',
]

// A server that is bound to all addresses also gets connections of `kubectl port-forward`.
for (const bound of ['loopback', 'everywhere'] as const)
  describe(`a connection at a loopback address to a server that is bound to ${bound}`, () => {
    for (const host of localHosts)
      test(`answers the Host ${host}`, async () => {
        assert.equal(await send(ports[bound], get, [`Host: ${host}`]), '200 OK')
      })

    for (const host of foreignHosts)
      test(`rejects the Host "${host}", and names the address to use`, async () => {
        const answer = await send(ports[bound], get, [`Host: ${host}`])
        assert.match(
          answer,
          /^403 the Host header is ".*", and the connection arrives at a loopback address: use /,
        )
        const port = host.endsWith(':6070') ? ':6070' : ''
        assert.ok(answer.endsWith(`http://localhost${port}`), answer)
      })

    test('answers a request of HTTP/1.0, which has no Host', async () => {
      assert.equal(await send(ports[bound], 'GET / HTTP/1.0', []), '200 OK')
    })
  })

/** An address of this machine that others reach, like that of a pod; undefined without a network. */
const address = Object.values(networkInterfaces())
  .flatMap(found => found ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')?.address
const skip = address === undefined ? 'this machine has no other address' : false

test('a connection at another address is answered with any Host', { skip }, async () => {
  for (const host of ['broker.internal', '10.0.0.1:8000', 'tollway-operator.tollway-system.svc:8000'])
    assert.equal(await send(ports.everywhere, get, [`Host: ${host}`], address), '200 OK')
})

describe('a request that changes something', () => {
  const host = 'Host: broker.localhost:6072'
  const rejected: readonly (readonly [method: string, ...headers: string[]])[] = [
    ['DELETE', 'Origin: https://evil.example'],
    ['POST', 'Origin: null'],
    ['POST', 'Origin: http://broker.localhost:8080'],
    ['PUT', 'Sec-Fetch-Site: cross-site'],
    ['PATCH', 'Sec-Fetch-Site: same-site'],
  ]
  for (const [method, ...headers] of rejected)
    test(`is rejected as ${method} with ${headers}`, async () => {
      const answer = await send(ports.everywhere, `${method} / HTTP/1.1`, [host, ...headers])
      assert.match(answer, new RegExp(`^403 a ${method} request of another site is not allowed`))
    })

  const allowed: readonly (readonly [method: string, ...headers: string[]])[] = [
    ['DELETE'],
    ['DELETE', 'Origin: http://broker.localhost:6072'],
    ['POST', 'Origin: https://BROKER.localhost:6072', 'Sec-Fetch-Site: same-origin'],
    ['GET', 'Origin: https://evil.example', 'Sec-Fetch-Site: cross-site'],
  ]
  for (const [method, ...headers] of allowed)
    test(`is answered as ${method} with ${headers.join(', ') || 'neither header'}`, async () => {
      assert.equal(await send(ports.everywhere, `${method} / HTTP/1.1`, [host, ...headers]), '200 OK')
    })
})
