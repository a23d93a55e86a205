import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Duplex } from 'node:stream'
import { test } from 'node:test'
import fc from 'fast-check'
import { mutatedRequests, parseChunks, wellFormedRequests } from './parser-under-test.ts'
import type { ParsedRequest } from './request.ts'

/**
 * The parser against that of node:http: whatever ours takes, Node takes too, and means the same by it. The
 * other way round ours is stricter, with a reason each.
 */
const runs = Number(process.env['FC_RUNS'] ?? 1000)
const seed = Number(process.env['FC_SEED'] ?? 20_260_401)

/** What ours refuses and Node takes: an example, the text of the refusal, and why. */
const stricter: readonly (readonly [example: string, refusal: RegExp, why: string])[] = [
  ['GET / HTTP/1.1|Host: x|Host: y||', /name Host, there must be 1/, 'RFC 9112, 3.2; Node keeps the first'],
  [
    'GET / HTTP/1.1|Host: x|Expect: x||',
    /only 100-continue/,
    'Node leaves it to the handler, or answers 417',
  ],
  ['POST / HTTP/1.1|Host: x|Transfer-Encoding: gzip, chunked||0||', /is not chunked/, 'Nobody decodes it'],
  [
    'GET /¶Host: x||',
    /the target has a character/,
    'HTTP/0.9 has no answer that a client could tell from others',
  ],
  ['GET x://y/ HTTP/1.1|Host: x||', /neither a path, nor a URL of http/, 'No other scheme is served'],
  [
    '¶GET / HTTP/1.1|Host: x||',
    /does not begin with a method/,
    'RFC 9112, 2.2, has empty lines with both characters',
  ],
  [
    'POST / HTTP/1.1|Host: x|Transfer-Encoding: chunked||0|Connection: x||',
    /a trailer has the name/,
    'RFC 9110, 6.5.1',
  ],
  ['GET /  HTTP/1.1|Host: x||', /does not end with the version/, 'RFC 9112, 3, has one space'],
  ['GET / HTTP/2.0|Host: x||', /neither HTTP\/1.1 nor HTTP\/1.0/, 'HTTP/2 does not look like this'],
  [
    'POST / HTTP/1.1|Host: x|Transfer-Encoding: chunked||0;a=||',
    /with its size/,
    'RFC 9112, 7.1.1, has a value',
  ],
]

interface NodeRequest {
  readonly method: string
  readonly target: string
  readonly headers: Readonly<Record<string, string>>
  readonly closes: boolean
  /** Undefined until it is complete. */
  body?: string
}

/** Node's server, to which connections in memory are given. */
function startNode() {
  const bySocket = new WeakMap<object, NodeRequest[]>()
  const server = createServer()
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    const { method = '', url: target = '', rawHeaders } = request
    const seen: NodeRequest = {
      method,
      target,
      headers: joinHeaders(rawHeaders),
      closes: !response.shouldKeepAlive,
    }
    bySocket.get(request.socket)?.push(seen)
    const chunks: Buffer[] = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', () => {
      seen.body = Buffer.concat(chunks).toString('latin1')
      response.end()
    })
  }
  server.on('request', onRequest)
  server.on('checkContinue', onRequest)
  server.on('checkExpectation', onRequest)
  // What was read before the error is still handed over.
  server.on('clientError', () => {})

  return async function read(text: string): Promise<NodeRequest[]> {
    const requests: NodeRequest[] = []
    const socket = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() })
    bySocket.set(socket, requests)
    server.emit('connection', socket)
    socket.push(Buffer.from(text, 'latin1'))
    // All happens in memory: what was read has been handed over within a turn, and bodies with it.
    for (let turn = 0; turn < 3; turn += 1) await new Promise(resolve => setImmediate(resolve))
    socket.destroy()
    return requests
  }
}

function joinHeaders(raw: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {}
  for (let index = 0; index < raw.length; index += 2) {
    const name = (raw[index] ?? '').toLowerCase()
    const value = raw[index + 1] ?? ''
    headers[name] = name in headers ? `${headers[name]}, ${value}` : value
  }
  return headers
}

function asNode(request: ParsedRequest, names: readonly string[]): NodeRequest {
  const { method, target } = request
  const { closes } = request.head
  const headers = Object.fromEntries(names.map(name => [name, request.header(name) ?? '(none)']))
  return { method, target, headers, closes, body: request.body.toString('latin1') }
}

/** Compares what both read; returns what ours refused where Node did not. */
function compare(text: string, byNode: readonly NodeRequest[]): string | undefined {
  const { requests, refusal, phase } = parseChunks([Buffer.from(text, 'latin1')])
  for (const [index, request] of requests.entries()) {
    const theirs = byNode[index]
    assert.ok(theirs, `Node refuses what we take: request ${index + 1}`)
    assert.deepEqual(asNode(request, Object.keys(theirs.headers)), theirs)
    // Nothing behind it counts, here or there.
    if (request.head.closes) return undefined
    // What is behind it in its chunk Node takes for the protocol that it does not switch to either.
    if (request.header('upgrade') !== undefined) return undefined
  }
  const next = byNode[requests.length]
  if (next?.body === undefined) return undefined
  assert.ok(refusal, `Node has read what we wait for in phase ${phase}: ${JSON.stringify(next)}`)
  return refusal.message
}

test('what is well-formed means the same to Node', async () => {
  const read = startNode()
  for (const text of [...wellFormedRequests, wellFormedRequests.join('')]) {
    assert.equal(compare(text, await read(text)), undefined, text)
  }
})

test('what we refuse and Node takes is known, with a reason each', async () => {
  const read = startNode()
  for (const [example, refusal] of stricter) {
    const text = example.replaceAll('|', '\r\n').replaceAll('¶', '\n')
    assert.match(compare(text, await read(text)) ?? 'Node refuses it too, or we take it too', refusal, text)
  }
})

test('what we take of changed requests Node takes too, with the same meaning', async () => {
  const read = startNode()
  await fc.assert(
    fc.asyncProperty(mutatedRequests, async text => {
      const refused = compare(text, await read(text))
      if (refused === undefined) return
      assert.ok(
        stricter.some(([, pattern]) => pattern.test(refused)),
        `Node takes what we refuse, and no reason for that is listed: ${refused}`,
      )
    }),
    { numRuns: runs, seed },
  )
})
