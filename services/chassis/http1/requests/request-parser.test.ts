import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { defaultHttp1Limits } from '../limits.ts'
import { mutatedRequests, parseChunks, split, wellFormedRequests } from '../testing/parse-chunks.ts'
import type { ParsedRequest } from './request.ts'
import { RequestParser } from './request-parser.ts'

const runs = Number(process.env['FC_RUNS'] ?? 500)
const seed = Number(process.env['FC_SEED'] ?? 20_260_401)

/** The parsed requests as text, one per line, and then the error or the phase. */
function outcome(text: string, limits = defaultHttp1Limits): string {
  const { requests, refusal, phase } = parseChunks([Buffer.from(text, 'latin1')], limits)
  const lines = requests.map(request => {
    const ending = request.head.closes ? ' close' : ''
    const body = request.body.length === 0 ? '' : ` ${request.body.toString('latin1')}`
    return `${request.method} ${request.target}${ending}${body}`
  })
  return [...lines, refusal === undefined ? phase : `${refusal.status} ${refusal.message}`].join('; ')
}

/** Parses cases, in which `|` is a line end, `¶` a bare line feed, `→` a tab, and `·` a leading space. */
function table(cases: string): [string, string][] {
  const lines = cases.split('\n').filter(line => line.trim() !== '')
  return lines.map(line => {
    const [text = '', expected = ''] = line.split(' => ')
    const octets = text.trimStart().replaceAll('|', '\r\n').replaceAll('¶', '\n')
    return [octets.replaceAll('→', '\t').replace(/^·/, ' '), expected]
  })
}

const accepted = `
  GET / HTTP/1.1|Host: x|| => GET /; idle
  GET / HTTP/1.1|Host:|| => GET /; idle
  GET / HTTP/1.0|| => GET / close; idle
  GET / HTTP/1.0|Connection: keep-alive|| => GET /; idle
  GET / HTTP/1.1|Host: x|Connection: close|| => GET / close; idle
  GET / HTTP/1.1|Host: x|Connection: Foo, CLOSE|| => GET / close; idle
  GET / HTTP/1.1|Host: x|Connection: \xa0close|| => GET /; idle
  GET / HTTP/1.1|Host: x|Connection: keep-alive|connection: close|| => GET / close; idle
  GET / HTTP/1.1|Host: x|Connection: upgrade|Upgrade: websocket|| => GET /; idle
  ||GET / HTTP/1.1|Host: x||| => GET /; idle
  OPTIONS * HTTP/1.1|Host: x|| => OPTIONS *; idle
  GET http://x:80/a?b HTTP/1.1|Host: y|| => GET http://x:80/a?b; idle
  POST / HTTP/1.1|Host: x|Content-Length: 2||ab => POST / ab; idle
  POST / HTTP/1.1|Host: x|CONTENT-LENGTH:→002→ ||ab => POST / ab; idle
  POST / HTTP/1.1|Host: x|Content-Length: 0||GET /b HTTP/1.1|Host: x|| => POST /; GET /b; idle
  POST / HTTP/1.1|Host: x|Content-Length: 2||abGET /b HTTP/1.1|Host: x|| => POST / ab; GET /b; idle
  POST / HTTP/1.1|Host: x|Transfer-Encoding: CHUNKED||2|ab|1;x;y="a b"|c|0|| => POST / abc; idle
  POST / HTTP/1.1|Host: x|Transfer-Encoding: chunked||002|ab|000|A: b|Accept: y|| => POST / ab; idle
  POST / HTTP/1.1|Host: x|Expect: 100-Continue|Content-Length: 2||ab => POST / ab; idle
  POST / HTTP/1.0|Expect: something|Content-Length: 2||ab => POST / close ab; idle
`

const incomplete = `
   => idle
  | => idle
  G => head
  GET / HTTP/1.1| => head
  GET / HTTP/1.1|Host: x| => head
  POST / HTTP/1.1|Host: x|Content-Length: 2|| => body
  POST / HTTP/1.1|Host: x|Content-Length: 2||a => body
  POST / HTTP/1.1|Host: x|Transfer-Encoding: chunked||0| => body
`

const wrongLine = '400 the request line does not end with the version of HTTP'
const wrongName = '400 a header does not begin with a name and a colon'
const control = '400 a header has a control character'
const alone = '400 a carriage return is not followed by a line feed'
const tooLong = '413 the body is longer than 1048576 bytes'
const twoLengths = '400 there is more than one Content-Length'
const twoCodings = '400 there is more than one Transfer-Encoding'
const bothFramings = '400 there are both a Content-Length and a Transfer-Encoding'
const otherCoding = '501 the Transfer-Encoding is not chunked'
const trailer = '400 a trailer has the name'
const chunk = '400 a chunk does not begin with its size'
const longChunk = '400 a chunk is longer than its size'
const target = '400 the target is neither a path, nor a URL of http, nor *'
const many = (count: number) => `400 there are ${count} headers of name Host, there must be 1`

const refused = `
  \x16\x03\x01\x02 => 400 the request does not begin with a method
  ¶GET / HTTP/1.1|Host: x|| => 400 the request does not begin with a method
  ·GET / HTTP/1.1|Host: x|| => 400 the request does not begin with a method
  @ => 400 the request does not begin with a method
  GE(T / HTTP/1.1|Host: x|| => 400 the request does not begin with a method
  get / HTTP/1.1|Host: x|| => 501 the method is not supported
  CONNECT x:80 HTTP/1.1|Host: x|| => 501 the method is not supported
  GET /|Host: x|| => 400 the target has a character that is not allowed
  GET /\x80 HTTP/1.1|Host: x|| => 400 the target has a character that is not allowed
  GET /→ HTTP/1.1|Host: x|| => 400 the target has a character that is not allowed
  GET  / HTTP/1.1|Host: x|| => ${target}
  GET a HTTP/1.1|Host: x|| => ${target}
  GET *a HTTP/1.1|Host: x|| => ${target}
  GET http:///a HTTP/1.1|Host: x|| => ${target}
  GET / HTTP/1.1 |Host: x|| => ${wrongLine}
  GET /  HTTP/1.1|Host: x|| => ${wrongLine}
  GET / HTTP/1.1¶Host: x¶¶ => ${wrongLine}
  GET / http/1.1|Host: x|| => ${wrongLine}
  GET / HTTP/11|Host: x|| => ${wrongLine}
  PRI * HTTP/2.0||SM|| => 501 the method is not supported
  GET / HTTP/2.0||SM|| => 505 the version is neither HTTP/1.1 nor HTTP/1.0
  GET / HTTP/1.2|Host: x|| => 505 the version is neither HTTP/1.1 nor HTTP/1.0
  GET / HTTP/1.1|| => ${many(0)}
  GET / HTTP/1.1|Host: x|Host: x|| => ${many(2)}
  GET / HTTP/1.0|Host: x|host: y|| => ${many(2)}
  GET / HTTP/1.1|Host : x|| => ${wrongName}
  GET / HTTP/1.1| Host: x|| => ${wrongName}
  GET / HTTP/1.1|Host: x| y|| => ${wrongName}
  GET / HTTP/1.1|Host: x|→y|| => ${wrongName}
  GET / HTTP/1.1|Host|| => ${wrongName}
  GET / HTTP/1.1|: x|| => ${wrongName}
  GET / HTTP/1.1|Ho\0st: x|| => ${wrongName}
  GET / HTTP/1.1|Host: x\0|| => ${control}
  GET / HTTP/1.1|Host: x¶|| => ${control}
  GET / HTTP/1.1|Host: x\ry|| => ${alone}
  GET / HTTP/1.1|Host: x|\r\r => ${alone}
  POST / HTTP/1.1|Host: x|Content-Length: || => 400 the Content-Length is not a number
  POST / HTTP/1.1|Host: x|Content-Length: +1|| => 400 the Content-Length is not a number
  POST / HTTP/1.1|Host: x|Content-Length: 1, 1|| => 400 the Content-Length is not a number
  POST / HTTP/1.1|Host: x|Content-Length: 0x1|| => 400 the Content-Length is not a number
  POST / HTTP/1.1|Host: x|Content-Length: 1|Content-Length: 2|| => ${twoLengths}
  POST / HTTP/1.1|Host: x|Content-Length: 1|content-length: 1|| => ${twoLengths}
  POST / HTTP/1.1|Host: x|Content-Length: 1048577|| => ${tooLong}
  POST / HTTP/1.1|Host: x|Content-Length: 99999999999999999999999|| => ${tooLong}
  POST / HTTP/1.1|Host: x|Expect: 200-ok|| => 417 only 100-continue can be expected
  POST / HTTP/1.1|Host: x|Transfer-Encoding: chunked→|| => ${otherCoding}
  POST / HTTP/1.1|Host: x|Transfer-Encoding: gzip|| => ${otherCoding}
  POST / HTTP/1.1|Host: x|Transfer-Encoding: gzip, chunked|| => ${otherCoding}
  POST / HTTP/1.1|Host: x|Transfer-Encoding: chunked|transfer-encoding: chunked|| => ${twoCodings}
  POST / HTTP/1.0|Transfer-Encoding: chunked|| => 400 there is a Transfer-Encoding in a request of HTTP/1.0
  POST / HTTP/1.1|Host: x|Content-Length: 5|Transfer-Encoding: chunked|| => ${bothFramings}
  POST / HTTP/1.1|Host: x|Transfer-Encoding: chunked|Content-Length: 5|| => ${bothFramings}
`

/** Chunks after the head of a chunked request. */
const refusedChunks = `
  | => ${chunk}
  x => ${chunk}
  -1 => ${chunk}
  0x1 => ${chunk}
  ·1| => ${chunk}
  1 | => ${chunk}
  1¶ => ${chunk}
  1\r\r => ${chunk}
  1; a=b| => ${chunk}
  1;a¶ => ${chunk}
  1;a="| => ${chunk}
  1|ab => ${longChunk}
  1|a¶ => ${longChunk}
  1|a\r\r => ${longChunk}
  100001| => ${tooLong}
  1|a|100000| => ${tooLong}
  ffffffffffffffffffffffff| => ${tooLong}
  0|A b|| => ${wrongName}
  0|A: b|Content-Length: 9|| => ${trailer} content-length
  0|Transfer-Encoding: chunked|| => ${trailer} transfer-encoding
  0| A: b|| => ${wrongName}
  0|A: b¶ => ${control}
  0|A: b\r\r => ${alone}
  1;${'a'.repeat(1024)} => 400 the line before a chunk is longer than 1024 bytes
  ${'0'.repeat(1024)} => 400 the line before a chunk is longer than 1024 bytes
  0|A: ${'a'.repeat(16_384)} => 431 the trailers are longer than 16384 bytes
  0|${'A: b|'.repeat(101)} => 431 there are more than 100 headers
`

test('well-formed requests are parsed, with their framing and the end of the connection', () => {
  for (const [text, expected] of table(accepted)) assert.equal(outcome(text), expected, text)
})

test('incomplete requests are in the phase of the missing part', () => {
  for (const [text, expected] of table(incomplete)) assert.equal(outcome(text), expected, text)
})

test('requests that servers might parse differently are rejected', () => {
  for (const [text, expected] of table(refused)) assert.equal(outcome(text), expected, text)
  const head = 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n'
  for (const [text, expected] of table(refusedChunks)) {
    assert.equal(outcome(head + text), expected, text)
  }
})

test('nothing is parsed after an error', () => {
  const parser = new RequestParser(defaultHttp1Limits)
  parser.push(Buffer.from('@'))
  assert.notEqual(parser.next(), undefined)
  parser.push(Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'))
  assert.equal(parser.next(), undefined)
})

test('each limit can be reached, and not exceeded', () => {
  const limits = {
    ...defaultHttp1Limits,
    maxHeadBytes: 64,
    maxHeaders: 3,
    maxTargetBytes: 8,
    maxBodyBytes: 4,
  }
  const head = (filler: number) => `GET / HTTP/1.1\r\nHost: x\r\nA: ${'a'.repeat(filler)}\r\n\r\n`
  assert.equal(outcome(head(64 - head(0).length), limits), 'GET /; idle')
  assert.match(outcome(head(65 - head(0).length), limits), /^431 .* longer than 64 bytes/)
  assert.match(outcome('A'.repeat(64), limits), /^431 /)
  assert.equal(outcome('A'.repeat(63), limits), 'head')
  assert.equal(outcome('GET /2345678 HTTP/1.0\r\n\r\n', limits), 'GET /2345678 close; idle')
  assert.equal(outcome('GET /23456789', limits), '414 the target is longer than 8 bytes')
  assert.equal(outcome(`GET / HTTP/1.1\r\nHost: x\r\n${'A: b\r\n'.repeat(2)}\r\n`, limits), 'GET /; idle')
  assert.match(outcome(`GET / HTTP/1.1\r\nHost: x\r\n${'A: b\r\n'.repeat(3)}`, limits), /^431 .* 3 headers/)
  const post = (length: number) => `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n`
  assert.equal(outcome(`${post(4)}abcd`, limits), 'POST / abcd; idle')
  assert.match(outcome(post(5), limits), /^413 .* 4 bytes/)
})

test('headers are found by their names in lower case, and lines with the same name are joined', () => {
  const lines = ['Host: x', 'X_A: 1', 'X-A: \t one \t', 'x-a:', 'X-A: caf\xe9', 'X-AB: 2']
  const text = `GET / HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`
  const [request] = parseChunks([Buffer.from(text, 'latin1')]).requests
  const names = ['host', 'x_a', 'x-a', 'x-ab', 'x', 'a', 'ost', '']
  const values = names.map(name => request?.header(name))
  assert.deepEqual(values, ['x', '1', 'one, , caf\xe9', '2', undefined, undefined, undefined, undefined])
})

const paths = `
  / => /
  /json => /json
  /json?a=/b? => /json
  /json#a => /json
  //json => //json
  /a%2Fb => /a%2Fb
  http://x => /
  http://x?a => /
  HTTPS://x:1/json?a => /json
  * => *
`

test('the path is the target without scheme, host and query', () => {
  for (const [target, expected] of table(paths)) {
    const [request] = parseChunks([Buffer.from(`GET ${target} HTTP/1.0\r\n\r\n`)]).requests
    assert.equal(request?.path, expected, target)
  }
})

const fieldNames = ['host', 'content-length', 'x-a', 'connection', 'accept', 'x-empty']

/** The visible parts of a request. */
function seen(request: ParsedRequest) {
  const { method, target, path, body } = request
  const { closes, asksToKeep } = request.head
  const headers = fieldNames.map(name => request.header(name))
  return { method, target, path, closes, asksToKeep, headers, body: body.toString('latin1') }
}

test('how the octets are split into chunks makes no difference', () => {
  const cuts = fc.array(fc.nat(2000), { maxLength: 8 })
  const limits = { ...defaultHttp1Limits, maxHeadBytes: 120, maxHeaders: 4, maxBodyBytes: 12 }
  fc.assert(
    fc.property(
      mutatedRequests,
      cuts,
      fc.constantFrom(defaultHttp1Limits, limits),
      (text, places, allowed) => {
        const bytes = Buffer.from(text, 'latin1')
        const chunks = [[bytes], split(bytes, places), Array.from(bytes, octet => Buffer.from([octet]))]
        const [whole, ...others] = chunks.map(parts => {
          const { requests, refusal, phase } = parseChunks(parts, allowed)
          return { requests: requests.map(seen), refusal: refusal?.message, phase }
        })
        for (const other of others) assert.deepEqual(other, whole)
      },
    ),
    { numRuns: runs, seed },
  )
})

test('earlier requests of the connection, such as one with the same head, make no difference', () => {
  const kept = wellFormedRequests.filter(text => !/close|HTTP\/1.0/.test(text))
  const before = fc.array(fc.constantFrom(...kept), { minLength: 1, maxLength: 4 })
  fc.assert(
    fc.property(before, mutatedRequests, (requests, text) => {
      const chunks = requests.map(each => Buffer.from(each, 'latin1'))
      const alone = [...chunks, Buffer.from(text, 'latin1')].map(chunk => parseChunks([chunk]))
      const together = parseChunks([...chunks, Buffer.from(text, 'latin1')])
      assert.deepEqual(
        together.requests.map(seen),
        alone.flatMap(parsed => parsed.requests.map(seen)),
      )
      assert.equal(together.refusal?.message, alone.at(-1)?.refusal?.message)
    }),
    { numRuns: runs, seed },
  )
})

test('repeated requests, split anywhere, are parsed as if each came alone', () => {
  const head = (line: string) => `${line} HTTP/1.1\r\nHost: x\r\n\r\n`
  const heads = ['GET /json', 'PUT /abcd', 'POST /json', 'GET /healthcheck'].map(head)
  const requests = fc.array(fc.constantFrom(...heads), { minLength: 3, maxLength: 8 })
  const cuts = fc.array(fc.nat(400), { maxLength: 6 })
  fc.assert(
    fc.property(requests, cuts, (texts, places) => {
      const { requests: read, refusal } = parseChunks(split(Buffer.from(texts.join('')), places))
      assert.equal(refusal?.message, undefined)
      assert.deepEqual(
        read.map(({ method, target }) => head(`${method} ${target}`)),
        texts,
      )
    }),
    { numRuns: runs, seed },
  )
})

test('a returned request is not changed by later ones', () => {
  const text = wellFormedRequests.join('')
  const whole = parseChunks([Buffer.from(text)]).requests.map(seen)
  const kept = parseChunks(Array.from(Buffer.from(text.repeat(20)), octet => Buffer.from([octet]))).requests
  assert.deepEqual(kept.map(seen), Array.from({ length: 20 }, () => whole).flat())
})

test('a request that arrives octet by octet takes linear time', () => {
  const head = `POST / HTTP/1.1\r\nHost: x\r\nA: ${'a'.repeat(16_000)}\r\nContent-Length: 200000\r\n\r\n`
  const text = head + 'b'.repeat(200_000)
  const chunks = Array.from(Buffer.from(text), octet => Buffer.from([octet]))
  const beginMs = performance.now()
  assert.equal(parseChunks(chunks).requests[0]?.body.length, 200_000)
  // It takes a fraction of a second; scanning all octets again for each new one would take minutes.
  assert.ok(performance.now() - beginMs < 10_000)
})
