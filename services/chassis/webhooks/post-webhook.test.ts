import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { after, describe, test } from 'node:test'
import { makeCertificate } from '../../../test/support/certificate.ts'
import { requireProgram } from '../../../test/support/require-server.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import type { Cidr } from '../net/cidr.ts'
import { AddressPolicy } from './address-policy.ts'
import { type PostAnswer, PostError, postWebhook, type ResolveName } from './post-webhook.ts'

const loopback: Cidr = { address: '127.0.0.1', prefix: 32 }
const policy = new AddressPolicy([loopback], true)
const neverAsked: ResolveName = name => Promise.reject(new Error(`${name} was looked up`))

describe('a post to a URL of an unknown party', () => {
  const servers: Server[] = []
  const sockets = new Set<Socket>()
  after(() => {
    for (const socket of sockets) socket.destroy()
    for (const server of servers) server.close()
  })

  async function listen(server: Server, host = '127.0.0.1', port = 0): Promise<number> {
    servers.push(server)
    server.on('connection', socket => sockets.add(socket))
    await new Promise<void>(resolve => {
      server.listen(port, host, resolve)
    })
    return (server.address() as AddressInfo).port
  }

  const post = (url: string, resolve: ResolveName = neverAsked, timeoutMs = 5_000): Promise<PostAnswer> =>
    postWebhook({ url, headers: { 'webhook-id': 'x' }, body: '{"a":"ø"}' }, { policy, resolve, timeoutMs })

  const answering = (listener: RequestListener) => listen(createServer(listener))

  test('arrives whole, and returns the status of the response', async () => {
    const seen: string[] = []
    const port = await answering(async (request, response) => {
      const { method, url, headers } = request
      seen.push(`${method} ${url} ${headers.host} ${headers['webhook-id']} ${await textOf(request)}`)
      response.writeHead(204, { 'retry-after': '7' }).end()
    })
    const answer = await post(`http://127.0.0.1:${port}/hook?a=b`)
    assert.deepEqual(answer, { status: 204, retryAfterSeconds: 7 })
    assert.deepEqual(seen, [`POST /hook?a=b 127.0.0.1:${port} x {"a":"ø"}`])
  })

  test('connects only to the checked address, although the name changes afterwards', async () => {
    const hits = { checked: 0, rebound: 0 }
    const count =
      (name: keyof typeof hits): RequestListener =>
      (_, response: ServerResponse) => {
        hits[name] += 1
        response.end()
      }
    const port = await answering(count('checked'))
    await listen(createServer(count('rebound')), '127.0.0.2', port)
    const answers = [['127.0.0.1'], ['127.0.0.2']]
    const rebinding: ResolveName = async () => answers.shift() ?? []
    const url = `http://rebinding.test:${port}/`
    assert.equal((await post(url, rebinding)).status, 200)
    await assert.rejects(post(url, rebinding), /127\.0\.0\.2, which is not public/)
    assert.deepEqual(hits, { checked: 1, rebound: 0 })
  })

  test('is rejected if one of several addresses is private', async () => {
    const mixed: ResolveName = async () => ['1.1.1.1', '::ffff:10.0.0.1']
    await assert.rejects(post('http://mixed.test/', mixed), /::ffff:10\.0\.0\.1, which is not public/)
    await assert.rejects(post('http://[::1]/'), /::1 is not a public address/)
    await assert.rejects(
      post('http://gone.test/', async () => []),
      /no address/,
    )
    const missing = Object.assign(new Error('getaddrinfo ENOTFOUND'), { code: 'ENOTFOUND' })
    await assert.rejects(
      post('http://gone.test/', () => Promise.reject(missing)),
      /gone\.test: host not found/,
    )
  })

  test('returns a redirect as the status, and does not follow it', async () => {
    let followed = 0
    const inside = await answering((_, response) => {
      followed += 1
      response.end()
    })
    for (const status of [301, 302, 303, 307, 308]) {
      const port = await answering((_, response) => {
        response.writeHead(status, { location: `http://127.0.0.1:${inside}/` }).end()
      })
      assert.equal((await post(`http://127.0.0.1:${port}/`)).status, status)
    }
    assert.equal(followed, 0)
  })

  test('stops reading an endless response, and returns its status', async () => {
    let sent = 0
    const port = await answering((_, response) => {
      const write = () => {
        while (!response.destroyed && response.write(Buffer.alloc(16_384))) sent += 16_384
        if (!response.destroyed) response.once('drain', write)
      }
      write()
    })
    assert.equal((await post(`http://127.0.0.1:${port}/`)).status, 200)
    assert.ok(sent < 64 * 1024 * 1024, `${sent} bytes`)
  })

  test('returns a status although the rest of the response does not arrive', async () => {
    const port = await answering((_, response) => {
      response.writeHead(503, { 'retry-after': 'Fri, 31 Dec 1999 23:59:59 GMT' }).write('a')
    })
    const answer = await post(`http://127.0.0.1:${port}/`, neverAsked, 200)
    assert.deepEqual(answer, { status: 503, retryAfterSeconds: null })
  })

  const speaking = (speak: (socket: Socket) => void) =>
    listen(
      createTcpServer(socket => {
        socket.on('error', () => {})
        speak(socket)
      }),
    )

  const bad: Record<string, readonly [RegExp, (socket: Socket) => void]> = {
    'never answers': [/no answer within 300 ms/, () => {}],
    trickles: [
      /no answer within 300 ms/,
      socket => {
        socket.write('HTTP/1.1 200 OK\r\n')
        const timer = setInterval(() => socket.write('a: b\r\n'), 20)
        socket.on('close', () => clearInterval(timer))
      },
    ],
    'hangs up': [
      /connection closed without an answer/,
      socket => socket.once('data', () => socket.destroy()),
    ],
    'says nonsense': [/the answer is not HTTP/, socket => socket.end('nonsense\r\n\r\n')],
    'has a long header': [
      /the headers of the answer are too long/,
      socket => socket.end(`HTTP/1.1 200 OK\r\na: ${'b'.repeat(40_000)}\r\n\r\n`),
    ],
    'switches protocols': [
      /connection closed without an answer/,
      socket => socket.end('HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'),
    ],
  }
  for (const [what, [expected, speak]] of Object.entries(bad)) {
    test(`a receiver that ${what} causes an error`, async () => {
      const port = await speaking(speak)
      const failing = post(`http://127.0.0.1:${port}/`, neverAsked, 300)
      await assert.rejects(failing, error => error instanceof PostError && expected.test(error.message))
    })
  }

  test('gives up a silent name server at the deadline', async () => {
    const silent: ResolveName = () => new Promise(() => {})
    await assert.rejects(post('http://silent.test/', silent, 100), /no answer within 100 ms/)
  })

  test('requires a certificate for the name, although it connects to an address', async t => {
    if (requireProgram(t, 'openssl') === false) return
    const folder = temporaryFolder('tollway-webhook')
    const { cert, key } = await makeCertificate(folder, 'receiver', 'DNS:receiver.test')
    const names: (string | undefined)[] = []
    const server = createTlsServer({ cert, key }, (_, response) => response.end())
    server.on('secureConnection', socket => names.push(socket.servername || undefined))
    const port = await listen(server)
    const resolve: ResolveName = async () => ['127.0.0.1']
    const options = { policy, resolve, timeoutMs: 5_000 }
    const at = (name: string) => ({ url: `https://${name}:${port}/`, headers: {}, body: '' })
    const trusting = { ...options, ca: cert }
    assert.equal((await postWebhook(at('receiver.test'), trusting)).status, 200)
    await assert.rejects(postWebhook(at('other.test'), trusting), /TLS failed: .*other\.test/)
    await assert.rejects(postWebhook(at('receiver.test'), options), /TLS failed: no trusted authority/)
    assert.equal(names[0], 'receiver.test')
  })
})

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}
