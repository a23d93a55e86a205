import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Duplex } from 'node:stream'
import { test } from 'node:test'
import fc from 'fast-check'
import type { ParsedRequest } from './requests/request.ts'
import { mutatedRequests, parseChunks, wellFormedRequests } from './testing/parse-chunks.ts'

/**
 * Compares the parser with that of node:http: Node accepts every request that the parser accepts, with the
 * same meaning. The parser is stricter than Node, with a reason for each case.
 */
const runs = Number(process.env['FC_RUNS'] ?? 1000)
const seed = Number(process.env['FC_SEED'] ?? 20_260_401)

/** Requests that only the parser rejects: an example, the error text, and the reason. */
const stricter: readonly (readonly [example: string, refusal: RegExp, why: string])[] = [
  ['GET / HTTP/1.1|Host: x|Host: y||', /name Host, there must be 1/, 'RFC 9112, 3.2; Node keeps the first'],
  [
    'GET / HTTP/1.1|Host: x|Expect: x||',
    /only 100-continue/,
    'Node leaves it to the handler, or answers 417',
  ],
  ['POST / HTTP/1.1|Host: x|Transfer-Encoding: gzip, chunked||0||', /is not chunked/, 'It is not decoded'],
  [
    'GET /¶Host: x||',
    /the target has a character/,
    'HTTP/0.9 has no answer that a client could distinguish from others',
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

/** Starts Node's server, which gets connections in memory. */
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
  // Requests that were parsed before the error are still delivered.
  server.on('clientError', () => {})

  return async function read(text: string): Promise<NodeRequest[]> {
    const requests: NodeRequest[] = []
    const socket = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() })
    bySocket.set(socket, requests)
    server.emit('connection', socket)
    socket.push(Buffer.from(text, 'latin1'))
    // Everything happens in memory: requests and their bodies are delivered within a turn.
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

/** Compares the results; returns the error if only the parser rejects. */
function compare(text: string, byNode: readonly NodeRequest[]): string | undefined {
  const { requests, refusal, phase } = parseChunks([Buffer.from(text, 'latin1')])
  for (const [index, request] of requests.entries()) {
    const theirs = byNode[index]
    assert.ok(theirs, `Node rejects an accepted request: request ${index + 1}`)
    assert.deepEqual(asNode(request, Object.keys(theirs.headers)), theirs)
    // Neither parser reads further.
    if (request.head.closes) return undefined
    // Node treats the rest of the chunk as another protocol, although it does not switch to it.
    if (request.header('upgrade') !== undefined) return undefined
  }
  const next = byNode[requests.length]
  if (next?.body === undefined) return undefined
  assert.ok(refusal, `Node has read a request that is incomplete in phase ${phase}: ${JSON.stringify(next)}`)
  return refusal.message
}

test('well-formed requests have the same meaning for Node', async () => {
  const read = startNode()
  for (const text of [...wellFormedRequests, wellFormedRequests.join('')]) {
    assert.equal(compare(text, await read(text)), undefined, text)
  }
})

test('each request that only the parser rejects has a known reason', async () => {
  const read = startNode()
  for (const [example, refusal] of stricter) {
    const text = example.replaceAll('|', '\r\n').replaceAll('¶', '\n')
    assert.match(compare(text, await read(text)) ?? 'both reject it, or both accept it', refusal, text)
  }
})

test('Node accepts every mutated request that is accepted, with the same meaning', async () => {
  const read = startNode()
  await fc.assert(
    fc.asyncProperty(mutatedRequests, async text => {
      const refused = compare(text, await read(text))
      if (refused === undefined) return
      assert.ok(
        stricter.some(([, pattern]) => pattern.test(refused)),
        `Node accepts a rejected request without a listed reason: ${refused}`,
      )
    }),
    { numRuns: runs, seed },
  )
})
