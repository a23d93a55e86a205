import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { Agent, request } from 'node:http'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { requireProgram } from '../../../test/support/require-server.ts'
import { answerHead, type Http1Answer } from './answer.ts'
import { createHttp1Server } from './server.ts'
import { echo, startServer, until } from './testing/start-server.ts'

const run = promisify(execFile)
const bodies = ['', '{"a":1}', 'é', 'x'.repeat(200_000)]

test('fetch is answered over kept connections', async t => {
  const { port, server } = await startServer(t)
  for (const body of bodies) {
    const response = await fetch(`http://127.0.0.1:${port}/json?a=b`, { method: 'POST', body })
    assert.equal(response.status, 200)
    assert.equal(response.headers.get('content-type'), 'text/plain')
    assert.equal(await response.text(), `POST /json ${body}`)
  }
  assert.ok(server.connections < bodies.length)
  const stream = new Blob(['in ', 'chunks']).stream()
  const url = `http://127.0.0.1:${port}/`
  const answer = await fetch(url, { method: 'PUT', body: stream, duplex: 'half' })
  assert.equal(await answer.text(), 'PUT / in chunks')
})

/** Sends a request with node:http; rejects when the answer is incomplete. */
function call(port: number, agent: Agent, method: string, body: string) {
  const { promise, resolve, reject } = Promise.withResolvers<{ connection?: string; text: string }>()
  const outgoing = request({ port, host: '127.0.0.1', agent, method, path: '/json' }, response => {
    let text = ''
    response.setEncoding('utf8')
    response.on('data', chunk => {
      text += chunk
    })
    response.on('error', reject)
    const { connection } = response.headers
    response.on('end', () => resolve({ text, ...(connection !== undefined && { connection }) }))
  })
  outgoing.on('error', reject)
  outgoing.end(body)
  return promise
}

test('the client of node:http is answered, and learns whether its connection is kept', async t => {
  let closing = false
  const { port, server } = await startServer(t, { closing: () => closing })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  for (const body of bodies) {
    assert.deepEqual(await call(port, agent, 'POST', body), {
      connection: 'keep-alive',
      text: `POST /json ${body}`,
    })
  }
  assert.equal((await call(port, agent, 'HEAD', '')).text, '')
  assert.equal(server.connections, 1)
  closing = true
  assert.equal((await call(port, agent, 'GET', '')).connection, 'close')
  await until(() => server.connections === 0)
})

test('curl is answered in each of its ways to send a body', async t => {
  const curl = requireProgram(t, 'curl')
  if (curl === false) return
  const { port } = await startServer(t)
  const url = `http://127.0.0.1:${port}/json`
  const ways: [string, string[]][] = [
    ['POST /json a=b', ['-d', 'a=b']],
    ['POST /json a=b', ['-d', 'a=b', '-H', 'Transfer-Encoding: chunked']],
    ['POST /json a=b', ['-d', 'a=b', '-H', 'Expect: 100-continue']],
    ['POST /json a=b', ['-0', '-d', 'a=b']],
    ['GET /json GET /json ', [url]],
  ]
  for (const [expected, args] of ways) {
    const answer: { stdout: string } = await run(curl, ['-sS', '--fail', '--max-time', '5', ...args, url])
    assert.equal(answer.stdout, expected)
  }
})

test('h2load is answered, with one request at a time and with many', async t => {
  const h2load = requireProgram(t, 'h2load')
  if (h2load === false) return
  const { port, requests } = await startServer(t)
  for (const pipelined of ['1', '32']) {
    const args = ['--h1', '-n', '2000', '-c', '10', '-m', pipelined, `http://127.0.0.1:${port}/`]
    assert.match((await run(h2load, args)).stdout, /2000 succeeded, 0 failed/)
  }
  assert.equal(requests.length, 4000)
})

test('an address in use is an error, unless it is shared', async t => {
  const { port } = await startServer(t)
  const options = { handle: echo, onDefect() {} }
  await assert.rejects(createHttp1Server(options).listen({ host: '127.0.0.1', port }), { code: 'EADDRINUSE' })
  const [first, second] = [createHttp1Server(options), createHttp1Server(options)]
  t.after(() => Promise.all([first.drain(0), second.drain(0)]))
  const shared = await first.listen({ host: '127.0.0.1', port: 0, reusePort: true })
  assert.equal(await second.listen({ host: '127.0.0.1', port: shared, reusePort: true }), shared)
})

test('a drain closes idle connections, answers running requests, and accepts no more', async t => {
  const running: ((answer: Http1Answer) => void)[] = []
  const rig = await startServer(t, { handle: () => new Promise(resolve => running.push(resolve)) })
  const [idle, busy] = [rig.connect(), rig.connect()]
  busy.send('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await until(() => running.length === 1 && rig.server.connections === 2)
  const drained = rig.server.drain(60_000)
  await until(idle.closed)
  assert.equal(idle.received(), '')
  const late = rig.connect()
  await until(late.closed)
  await assert.rejects(rig.server.listen({ host: '127.0.0.1', port: 0 }), /shut down/)
  running[0]?.({ head: answerHead(200), body: 'done' })
  const [answer] = await busy.answers(1)
  assert.match(answer?.head ?? '', /\r\nConnection: close\r\n/)
  assert.equal(answer?.body, 'done')
  await drained
})

test('a drain aborts requests after the grace period; a second call may shorten it', async t => {
  const { server, connect, requests } = await startServer(t, { handle: () => new Promise(() => {}) })
  const client = connect()
  client.send('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await until(() => requests.length === 1)
  const drained = server.drain(60_000)
  await server.drain(10)
  await drained
  await until(client.closed)
})

test('a drain under load loses no request', async t => {
  const { server, port, requests } = await startServer(t, {
    handle: request => new Promise(resolve => setTimeout(() => resolve(echo(request)), 1)),
  })
  let answered = 0
  const agent = new Agent({ keepAlive: true })
  t.after(() => agent.destroy())
  /** Sends requests until the connection is closed. */
  const caller = async () => {
    for (;;) {
      const { connection, text } = await call(port, agent, 'POST', 'body')
      assert.equal(text, 'POST /json body')
      answered += 1
      if (connection === 'close') return
    }
  }
  const callers = Array.from({ length: 20 }, caller)
  await until(() => answered > 200)
  await Promise.all([...callers, server.drain(60_000)])
  assert.equal(answered, requests.length)
})
