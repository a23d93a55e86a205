import fc from 'fast-check'
import { defaultHttp1Limits } from '../limits.ts'
import { Refusal } from '../refusal.ts'
import type { ParsedRequest } from '../requests/request.ts'
import { type ParserLimits, type ParserPhase, RequestParser } from '../requests/request-parser.ts'

export interface ParsedText {
  readonly requests: readonly ParsedRequest[]
  readonly refusal: Refusal | undefined
  /** The phase of the parser at the end; undefined after an error. */
  readonly phase: ParserPhase | undefined
}

/** Pushes the chunks into a new parser. */
export function parseChunks(
  chunks: readonly Buffer[],
  limits: ParserLimits = defaultHttp1Limits,
): ParsedText {
  const parser = new RequestParser(limits)
  const requests: ParsedRequest[] = []
  for (const chunk of chunks) {
    parser.push(chunk)
    for (let next = parser.next(); next !== undefined; next = parser.next()) {
      if (next instanceof Refusal) return { requests, refusal: next, phase: undefined }
      requests.push(next)
    }
  }
  return { requests, refusal: undefined, phase: parser.phase }
}

/** Splits the bytes at the cuts. */
export function split(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const sorted = [...new Set(cuts.map(cut => cut % (bytes.length + 1)))].sort((a, b) => a - b)
  return [...sorted, bytes.length].map((cut, index) =>
    Buffer.from(bytes.subarray(sorted[index - 1] ?? 0, cut)),
  )
}

/** Requests as clients send them, with all kinds of framing. */
export const wellFormedRequests: readonly string[] = [
  'GET / HTTP/1.1\r\nHost: x\r\n\r\n',
  'GET /healthcheck?a=1&b HTTP/1.0\r\n\r\n',
  'POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{"a"}',
  'POST /json HTTP/1.1\r\nhost: x:80\r\nContent-Type: application/json\r\ncontent-length:0\r\n\r\n',
  'PUT http://x/json?q HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n' +
    '5\r\nhello\r\n3;a=b\r\nyou\r\n0\r\n\r\n',
  'POST /json HTTP/1.1\r\nHost: x\r\ntransfer-encoding: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\n',
  'HEAD /a%20b HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nX-A: two words\r\nConnection: keep-alive\r\n\r\n',
  'OPTIONS * HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nX-Empty:\r\nX-Blank: \t \r\n\r\n',
  'POST /json HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}',
  '\r\nDELETE /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
]

/** Texts that are inserted at a wrong place, or twice. */
const pieces = [
  ...['\r\n', '\n', '\r', ' ', '\t', ':', ';', ',', '\0', '\x7f', '\x80', '\xff', '"', '0', '5', '-', '+'],
  ...['Content-Length: 5\r\n', 'Content-Length: 6\r\n', 'Content-Length: 5, 5\r\n', 'content-length : 5\r\n'],
  ...['Transfer-Encoding: chunked\r\n', 'Transfer-Encoding: gzip, chunked\r\n', 'Transfer-Encoding:\r\n'],
  ...[
    'Transfer-Encoding: identity\r\n',
    'Transfer_Encoding: chunked\r\n',
    'Transfer-Encoding: chunked, \r\n',
  ],
  ...['Host: y\r\n', ' folded\r\n', 'Connection: close\r\n', 'Connection: Upgrade\r\nUpgrade: h2c\r\n'],
  ...['HTTP/1.1', 'HTTP/2.0', 'http/1.1', '0\r\n\r\n', '5\r\nhello\r\n', 'ffffffffffffffffff\r\n', '-1\r\n'],
]

type Mutation = (text: string) => string

const at = fc.nat({ max: 400 })
const inserted = fc.record({ at, piece: fc.constantFrom(...pieces) }).map(({ at, piece }): Mutation => {
  return text => text.slice(0, at % text.length) + piece + text.slice(at % text.length)
})
const insertedLine = fc.constantFrom(...pieces).map((piece): Mutation => {
  return text => text.replace('\r\n', () => `\r\n${piece}`)
})
const removed = fc.record({ at, length: fc.integer({ min: 1, max: 4 }) }).map(({ at, length }): Mutation => {
  return text => text.slice(0, at % text.length) + text.slice((at % text.length) + length)
})
const replaced = fc.record({ at, octet: fc.nat(255) }).map(({ at, octet }): Mutation => {
  const index = (text: string) => at % text.length
  return text => text.slice(0, index(text)) + String.fromCharCode(octet) + text.slice(index(text) + 1)
})

/** One to three consecutive requests, some of them mutated. Each character is an octet. */
export const mutatedRequests: fc.Arbitrary<string> = fc
  .record({
    requests: fc.array(fc.constantFrom(...wellFormedRequests), { minLength: 1, maxLength: 3 }),
    mutations: fc.array(fc.oneof(inserted, insertedLine, removed, replaced), { maxLength: 3 }),
  })
  .map(({ requests, mutations }) =>
    mutations.reduce((text, mutate) => mutate(text || ' '), requests.join('')),
  )
