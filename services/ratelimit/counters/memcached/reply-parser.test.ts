import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type MemcachedReply, MemcachedReplyParser } from './reply-parser.ts'

interface Outcome {
  readonly replies: readonly MemcachedReply[]
  readonly problem: string | undefined
}

/** Parses the chunks, which all use the same buffer. */
function parse(...chunks: readonly (string | Buffer)[]): Outcome {
  const replies: MemcachedReply[] = []
  const parser = new MemcachedReplyParser(reply => replies.push(reply))
  const memory = Buffer.alloc(chunks.reduce((most, chunk) => Math.max(most, Buffer.byteLength(chunk)), 1))
  let problem: string | undefined
  for (const chunk of chunks) {
    const bytes = Buffer.from(chunk)
    bytes.copy(memory)
    problem = parser.push(memory, bytes.length)
  }
  return { replies, problem }
}

test('every kind of reply is parsed', () => {
  const table: readonly [string, MemcachedReply][] = [
    ['0\r\n', 0],
    ['17\r\n', 17],
    ['9007199254740991\r\n', 9_007_199_254_740_991],
    ['9007199254740992\r\n', 9_007_199_254_740_992n],
    ['18446744073709551615\r\n', 2n ** 64n - 1n],
    ['STORED\r\n', 'STORED'],
    ['NOT_STORED\r\n', 'NOT_STORED'],
    ['NOT_FOUND\r\n', 'NOT_FOUND'],
    ['END\r\n', { value: 0 }],
    ['VALUE key 0 2\r\n17\r\nEND\r\n', { value: 17 }],
    ['VALUE 12 4294967295 20\r\n18446744073709551615\r\nEND\r\n', { value: 2n ** 64n - 1n }],
    ['VALUE key 0 5\r\n99   \r\nEND\r\n', { value: 99 }],
    ['VALUE key 0 0\r\n\r\nEND\r\n', { value: undefined }],
    ['VALUE key 0 3\r\n-17\r\nEND\r\n', { value: undefined }],
    ['VALUE key 0 3\r\n 17\r\nEND\r\n', { value: undefined }],
    ['VALUE key 0 21\r\n111111111111111111111\r\nEND\r\n', { value: undefined }],
    ['VALUE key 0 7\r\n1\r\nEND\r\r\nEND\r\n', { value: undefined }],
    [`VALUE key 0 100000\r\n${'\n'.repeat(100_000)}\r\nEND\r\n`, { value: undefined }],
    ['ERROR\r\n', { error: 'ERROR' }],
    ['CLIENT_ERROR bad data chunk\r\n', { error: 'CLIENT_ERROR bad data chunk' }],
    ['SERVER_ERROR out of memory für a\r\n', { error: 'SERVER_ERROR out of memory für a' }],
  ]
  const all = table.map(([text]) => text).join('')
  for (const [text, reply] of table) assert.deepEqual(parse(text), { replies: [reply], problem: undefined })
  const replies = table.map(([, reply]) => reply)
  assert.deepEqual(parse(all), { replies, problem: undefined })
  const bytes = Buffer.from(all)
  const single = Array.from({ length: bytes.length }, (_, at) => bytes.subarray(at, at + 1))
  assert.deepEqual(parse(...single), { replies, problem: undefined })
})

test('malformed bytes are reported and end the parsing', () => {
  const table: readonly [string, RegExp][] = [
    ['\r\n', /unknown kind/],
    ['\n', /a line that does not end/],
    ['17\n', /a line that does not end/],
    ['-1\r\n', /unknown kind/],
    ['1 7\r\n', /unknown kind/],
    ['111111111111111111111\r\n', /unknown kind/],
    ['stored\r\n', /unknown kind/],
    ['ERROR too\r\n', /unknown kind/],
    ['+PONG\r\n', /unknown kind/],
    ['HTTP/1.1 400 Bad Request\r\n', /unknown kind/],
    ['VALUE key 0\r\n', /unknown kind/],
    ['VALUE key 0 -1\r\n', /unknown kind/],
    ['VALUE key 0 1 7\r\n', /unknown kind/],
    ['VALUE key 0 1048577\r\n', /a value of more than 1048576 bytes/],
    ['VALUE key 0 2\r\n173\r\nEND\r\n', /a value that does not end/],
    ['VALUE key 0 2\r\n17\r\nVALUE key 0 2\r\n17\r\nEND\r\n', /a value that is not followed by END/],
    ['VALUE key 0 2\r\n17\r\n5\r\n', /a value that is not followed by END/],
    ['x'.repeat(2_049), /a line of more than 2048 bytes/],
    [`SERVER_ERROR ${'x'.repeat(2_048)}\r\n`, /a line of more than 2048 bytes/],
  ]
  for (const [text, problem] of table) {
    const outcome = parse(`5\r\n${text}`, '6\r\n')
    assert.match(outcome.problem ?? 'none', problem, JSON.stringify(text))
    assert.deepEqual(outcome.replies, [5])
  }
  assert.match(parse('x'.repeat(1_500), 'x'.repeat(1_500)).problem ?? '', /a line of more than 2048 bytes/)
})

test('an incomplete reply waits for its rest', () => {
  for (const text of ['', '1', '1\r', 'VALUE a 0 5\r\n12', 'VALUE a 0 2\r\n12\r\nEND\r']) {
    assert.deepEqual(parse(text), { replies: [], problem: undefined })
  }
})

const piece = fc.constantFrom(
  ...['STORED', 'NOT_FOUND', 'END', 'VALUE', ' key', ' 0', ' 3', ' 5', '17', '\r\n', '\r', '\n', 'ERROR'],
  ...['SERVER_ERROR ', '\u0000', 'ÿ', '18446744073709551616', '-'],
)
const noise = fc.oneof(
  fc.array(piece, { maxLength: 30 }).map(pieces => Buffer.from(pieces.join(''), 'latin1')),
  fc.uint8Array({ maxLength: 60 }).map(bytes => Buffer.from(bytes)),
)

test('random bytes are parsed the same wherever they are cut', () => {
  fc.assert(
    fc.property(noise, fc.array(fc.nat(60), { maxLength: 8 }), (bytes, cuts) => {
      const places = [0, ...cuts.map(cut => Math.min(cut, bytes.length)), bytes.length].sort((a, b) => a - b)
      const chunks = places.slice(1).map((place, index) => bytes.subarray(places[index], place))
      assert.deepEqual(parse(...chunks), parse(bytes))
    }),
    { numRuns: 2_000 },
  )
})
