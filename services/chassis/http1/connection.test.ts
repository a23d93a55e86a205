import assert from 'node:assert/strict'
import { Duplex } from 'node:stream'
import { test } from 'node:test'
import { RequestMemory } from '../request-memory.ts'
import { answerHead, type Http1Answer } from './answer.ts'
import { Connection } from './connection.ts'
import { defaultHttp1Limits } from './limits.ts'
import type { Http1Request } from './requests/request.ts'
import { echo, startServer, until } from './testing/start-server.ts'

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`
const post = (path: string, body: string) =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`
/**
 * A handler that does not answer until `release` is called, which answers the oldest or the newest request.
 */
function holdAnswers() {
  const held: { request: Http1Request; resolve: (answer: Http1Answer) => void }[] = []
  return {
    held,
    handle: (request: Http1Request) => new Promise<Http1Answer>(resolve => held.push({ request, resolve })),
    release(order: 'first' | 'last'): void {
      const next = order === 'first' ? held.shift() : held.pop()
      next?.resolve(echo(next.request))
    },
  }
}

test('pipelined requests are answered in order, whichever is ready first', async t => {
  const { held, handle, release } = holdAnswers()
  const { connect } = await startServer(t, {
    handle: request => (request.path === '/now' ? echo(request) : handle(request)),
  })
  const client = connect()
  client.send(get('/1') + get('/now') + post('/2', 'two') + get('/now') + get('/3'))
  await until(() => held.length === 3)
  for (let count = 0; count < 3; count += 1) release('last')
  const bodies = (await client.answers(5)).map(({ body }) => body)
  assert.deepEqual(bodies, ['GET /1 ', 'GET /now ', 'POST /2 two', 'GET /now ', 'GET /3 '])
})

/** A connection in memory that counts its writes. */
function openInMemory(handle: (request: Http1Request) => Http1Answer | Promise<Http1Answer>) {
  const writes: string[] = []
  const socket = new Duplex({
    read() {},
    write(chunk: Buffer, _encoding, done) {
      writes.push(chunk.toString('latin1'))
      done()
    },
  })
  const context = {
    limits: defaultHttp1Limits,
    memory: new RequestMemory(),
    handle,
    bodyTooLong: undefined,
    onDefect: (_: string, error: unknown) => assert.fail(String(error)),
    closing: () => false,
    dateLine: () => '',
    sweptMs: () => 0,
  }
  const connection = new Connection(socket, context, () => {})
  return { connection, writes, push: (text: string) => socket.push(Buffer.from(text, 'latin1')) }
}

test('the answers of a turn are sent in one write', async () => {
  const { held, handle, release } = holdAnswers()
  const atOnce = openInMemory(echo)
  atOnce.push(get('/1') + get('/2') + get('/3'))
  await until(() => atOnce.writes.length > 0)
  assert.equal(atOnce.writes.length, 1)
  assert.match(atOnce.writes.join(), /\/1.*\/2.*\/3/s)

  const later = openInMemory(handle)
  later.push(get('/1') + get('/2') + get('/3'))
  await until(() => held.length === 3)
  release('first')
  release('first')
  await until(() => later.writes.length === 1)
  release('first')
  await until(() => later.writes.length === 2)
  assert.match(later.writes[0] ?? '', /\/1.*\/2/s)
})

test('HEAD, and a status without a body, are answered without one', async t => {
  const { connect } = await startServer(t, {
    handle: ({ path }) => ({ head: answerHead(Number(path.slice(1)), { 'X-A': 'b' }), body: 'body' }),
  })
  const client = connect()
  client.send(`${get('/200').replace('GET', 'HEAD')}${get('/204')}${get('/304')}${get('/500')}`)
  await until(() => client.received().endsWith('body'))
  const date = client.received().match(/Date: .*\r\n/)?.[0] ?? ''
  const expected = [
    `HTTP/1.1 200 OK\r\nX-A: b\r\n${date}Content-Length: 4\r\n\r\n`,
    `HTTP/1.1 204 No Content\r\nX-A: b\r\n${date}\r\n`,
    `HTTP/1.1 304 Not Modified\r\nX-A: b\r\n${date}\r\n`,
    `HTTP/1.1 500 Internal Server Error\r\nX-A: b\r\n${date}Content-Length: 4\r\n\r\nbody`,
  ]
  assert.equal(client.received(), expected.join(''))
})

test('lengths are in octets, for UTF-8 text and for binary bodies', async t => {
  const bodies = ['', 'ascii', 'é', '日本', '💶', Buffer.from([0, 255, 13, 10]), 'end']
  const { connect } = await startServer(t, {
    handle: ({ path }) => ({ head: answerHead(200), body: bodies[Number(path.slice(1))] ?? '' }),
  })
  const client = connect()
  client.send(bodies.map((_, index) => get(`/${index}`)).join(''))
  const received = (await client.answers(bodies.length)).map(({ body }) => Buffer.from(body, 'latin1'))
  assert.deepEqual(
    received,
    bodies.map(body => Buffer.from(body)),
  )
})

test('the Date header is the time of the clock', async t => {
  const { connect } = await startServer(t, { clock: { nowMs: () => 784_111_777_999, monotonicMs: () => 0 } })
  const client = connect()
  client.send(get('/'))
  const [answer] = await client.answers(1)
  assert.match(answer?.head ?? '', /\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n/)
})

/** A request, and whether its answer ends the connection. */
const endings: readonly [request: string, connection: string | undefined, ends: boolean][] = [
  [get('/'), undefined, false],
  [get('/').replace('Host', 'Connection: keep-alive\r\nHost'), 'keep-alive', false],
  [get('/').replace('Host', 'Connection: close\r\nHost'), 'close', true],
  [get('/').replace('HTTP/1.1', 'HTTP/1.0'), 'close', true],
  ['GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n', 'keep-alive', false],
]

test('a connection is kept or closed as its client requests', async t => {
  const { connect, requests } = await startServer(t)
  for (const [request, connection, ends] of endings) {
    const client = connect()
    client.send(request)
    const [answer] = await client.answers(1)
    assert.equal(/\r\nConnection: (.*)\r\n/.exec(answer?.head ?? '')?.[1], connection, request)
    if (ends) await until(client.closed)
    else {
      client.send(request)
      assert.equal((await client.answers(2)).length, 2, request)
    }
  }
  const served = requests.length
  const client = connect()
  client.send(get('/').replace('Host', 'Connection: close\r\nHost') + get('/never'))
  await until(client.closed)
  assert.equal(requests.length, served + 1)
})

test('a client that expects 100 Continue gets it once, after the earlier answers', async t => {
  const { held, handle, release } = holdAnswers()
  const { connect } = await startServer(t, {
    handle: request => (request.path === '/held' ? handle(request) : echo(request)),
  })
  const expecting = post('/', 'body').replace('Host', 'Expect: 100-continue\r\nHost')
  const client = connect()
  client.send(get('/held') + expecting.slice(0, -4))
  await until(() => held.length === 1)
  assert.equal(client.received(), '')
  release('first')
  const codes = async (count: number) => (await client.answers(count)).map(({ status }) => status)
  assert.deepEqual(await codes(2), [200, 100])
  client.send('bo')
  client.send('dy')
  assert.deepEqual(await codes(3), [200, 100, 200])
  client.send(expecting)
  assert.deepEqual(await codes(4), [200, 100, 200, 200])
})

test('a malformed request is rejected after the earlier answers, and ends the connection', async t => {
  const { held, handle, release } = holdAnswers()
  const { connect, requests } = await startServer(t, { handle })
  const client = connect()
  client.send(`${get('/1')}\x16\x03\x01${get('/2')}`)
  await until(() => held.length === 1)
  release('first')
  const [, refusal] = await client.answers(2)
  assert.equal(refusal?.body, 'Bad Request: the request does not begin with a method\n')
  assert.match(refusal.head, /^HTTP\/1.1 400 Bad Request\r\n.*\r\nConnection: close\r\n/s)
  await until(client.closed)
  assert.equal(requests.length, 1)
})

test('a body that is too long is answered while it is still being sent', async t => {
  const { connect } = await startServer(t, { limits: { maxBodyBytes: 10 } })
  const client = connect()
  client.send(post('/', 'x'.repeat(8 * 1024 * 1024)))
  assert.deepEqual((await client.answers(1))[0]?.status, 413)
  await until(client.closed)
  const other = await startServer(t, {
    limits: { maxBodyBytes: 10 },
    bodyTooLong: { head: answerHead(400), body: 'no' },
  })
  const chunked = other.connect()
  chunked.send('POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n')
  const [answer] = await chunked.answers(1)
  assert.deepEqual([answer?.status, answer?.body], [400, 'no'])
})

test('a client that closes its side after the request still gets the answer', async t => {
  const { held, handle, release } = holdAnswers()
  const { connect, server } = await startServer(t, { handle })
  const client = connect()
  client.socket.end(get('/1') + get('/2') + get('/cut').slice(0, -4))
  await until(() => held.length === 2)
  release('first')
  release('first')
  assert.deepEqual(
    (await client.answers(2)).map(({ body }) => body),
    ['GET /1 ', 'GET /2 '],
  )
  await until(() => client.closed() && server.connections === 0)
})

test('a client that closes its side with requests waiting gets all answers', async t => {
  const { held, handle, release } = holdAnswers()
  const { connect, server } = await startServer(t, { handle, limits: { maxPipelined: 4 } })
  const client = connect()
  const paths = Array.from({ length: 11 }, (_, index) => `/${index}`)
  client.socket.end(paths.map(get).join(''))
  for (const _ of paths) {
    await until(() => held.length > 0 || client.closed())
    release('first')
  }
  assert.deepEqual(
    (await client.answers(paths.length)).map(({ body }) => body),
    paths.map(path => `GET ${path} `),
  )
  await until(() => client.closed() && server.connections === 0)
})

test('a failed handler is answered with 500 without its text, and the connection continues', async t => {
  const wrong: Record<string, () => Http1Answer | Promise<Http1Answer>> = {
    '/throw': () => {
      throw new Error('secret')
    },
    '/reject': () => Promise.reject(new Error('secret')),
    '/status': () => ({ head: answerHead(1000) }),
    '/injection': () => ({ head: answerHead(200, { 'X-A': 'secret\r\nX-B: b' }) }),
    '/name': () => ({ head: answerHead(200, { 'X A': 'secret' }) }),
    '/own': () => ({ head: answerHead(200, { 'content-length': '1' }) }),
    '/type': () => ({ head: answerHead(200, { 'Content-Type': 'text/plain\n' }) }),
  }
  const { connect, defects } = await startServer(t, {
    handle: ({ path }) => wrong[path]?.() ?? { head: answerHead(200) },
  })
  const client = connect()
  const paths = Object.keys(wrong)
  client.send(`${paths.map(get).join('')}${get('/right')}`)
  const answers = await client.answers(paths.length + 1)
  assert.deepEqual(
    answers.map(({ status, body }) => `${status} ${body}`),
    [...paths.map(() => '500 Internal Server Error\n'), '200 '],
  )
  assert.deepEqual(defects.map(([path]) => path).sort(), paths.sort())
})

test('a connection runs at most maxPipelined requests, and all are answered', async t => {
  const { held, handle, release } = holdAnswers()
  const { connect } = await startServer(t, { handle, limits: { maxPipelined: 4 } })
  const client = connect()
  const paths = Array.from({ length: 50 }, (_, index) => `/${index}`)
  client.send(paths.map(get).join(''))
  let most = 0
  const answered = client.answers(paths.length)
  for (const _ of paths) {
    await until(() => held.length > 0)
    most = Math.max(most, held.length)
    release('first')
  }
  assert.deepEqual(
    (await answered).map(({ body }) => body),
    paths.map(path => `GET ${path} `),
  )
  assert.equal(most, 4)
})

test('a client that does not read its answers is paused, and disconnected in the end', async t => {
  const { connect, requests, server } = await startServer(t, {
    handle: () => ({ head: answerHead(200), body: 'x'.repeat(10_000) }),
    limits: { writeTimeoutMs: 100 },
  })
  const client = connect()
  client.socket.pause()
  const many = get('/').repeat(20_000)
  client.send(many)
  await until(() => server.connections === 0 && requests.length > 0)
  // Only those of the 200 MB of answers were created that fit into the kernel's buffers and one write.
  assert.ok(requests.length < 5000, `${requests.length} requests were answered although nothing was read`)
})

test('a client that reads slowly gets all answers', async t => {
  const { connect } = await startServer(t, {
    handle: () => ({ head: answerHead(200), body: 'x'.repeat(10_000) }),
  })
  const client = connect()
  client.socket.pause()
  client.send(get('/').repeat(2000))
  await until(() => client.socket.bytesWritten > 0)
  client.socket.resume()
  assert.equal((await client.answers(2000)).length, 2000)
})

const timeouts = { headTimeoutMs: 30, bodyTimeoutMs: 30, idleTimeoutMs: 30 }

test('each wait has a timeout, except for handlers', async t => {
  const { held, handle, release } = holdAnswers()
  const { connect } = await startServer(t, { handle, limits: timeouts })
  const [idle, head, body, running] = [connect(), connect(), connect(), connect()]
  head.send('GET / HTTP/1.1\r\nHo')
  body.send(post('/', 'body').slice(0, -1))
  running.send(get('/slow'))
  await until(() => idle.closed() && head.closed() && body.closed())
  assert.equal(idle.received(), '')
  assert.match(head.received(), /^HTTP\/1.1 408 Request Timeout\r\n.*the headers took too long\n$/s)
  assert.match(body.received(), /^HTTP\/1.1 408 Request Timeout\r\n.*the body took too long\n$/s)
  assert.equal(running.closed(), false)
  assert.equal(held.length, 1)
  release('first')
  assert.equal((await running.answers(1))[0]?.status, 200)
  await until(running.closed)
})

test('single octets do not extend a timeout', async t => {
  const { connect } = await startServer(t, { limits: timeouts })
  const client = connect()
  client.send('GET / HTTP/1.1\r\n')
  const dripping = setInterval(() => client.send('A: b\r\n'), 2)
  t.after(() => clearInterval(dripping))
  await until(client.closed)
})

test('a client that keeps a closed connection open is disconnected', async t => {
  const { connect, server } = await startServer(t, { limits: { lingerTimeoutMs: 30 } })
  const client = connect()
  client.socket.allowHalfOpen = true
  client.send(get('/').replace('Host', 'Connection: close\r\nHost'))
  await until(() => client.ended() && server.connections === 0)
})

test('clients that reset, speak TLS or send noise do not affect others', async t => {
  const { held, handle, release } = holdAnswers()
  const { connect, server, defects } = await startServer(t, {
    handle: request => (request.path === '/held' ? handle(request) : echo(request)),
  })
  const reset = connect()
  reset.send(get('/held') + post('/', 'body').slice(0, -1))
  await until(() => held.length === 1)
  reset.socket.resetAndDestroy()
  const tls = connect()
  tls.send('\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03')
  const http2 = connect()
  http2.send('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  const noise = connect()
  noise.send('\xff'.repeat(100_000))
  await until(() => tls.closed() && http2.closed() && noise.closed() && server.connections === 0)
  release('first')
  const client = connect()
  client.send(get('/after'))
  assert.equal((await client.answers(1))[0]?.body, 'GET /after ')
  assert.deepEqual(defects, [])
})

test('the number of open connections is limited', async t => {
  const { connect, server } = await startServer(t, { limits: { maxConnections: 2 } })
  const [first, second] = [connect(), connect()]
  await until(() => server.connections === 2)
  const third = connect()
  await until(third.closed)
  first.send(get('/'))
  assert.equal((await first.answers(1)).length, 1)
  second.socket.destroy()
  await until(() => server.connections === 1)
  const fourth = connect()
  fourth.send(get('/'))
  assert.equal((await fourth.answers(1)).length, 1)
})
