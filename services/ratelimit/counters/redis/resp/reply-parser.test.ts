import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { createReplyParser, isErrorReply, type RedisReply } from './reply-parser.ts'

interface Parsed {
  readonly replies: readonly RedisReply[]
  readonly problem: string | undefined
}

/**
 * Parses the bytes in chunks that end at the cuts. All chunks use the same buffer, as those of a socket do.
 */
function parse(
  bytes: Buffer,
  cuts: readonly number[] = [],
  limits: Parameters<typeof createReplyParser>[1] = {},
): Parsed {
  const replies: RedisReply[] = []
  const parser = createReplyParser(reply => replies.push(reply), limits)
  const memory = Buffer.alloc(bytes.length + 10, ':7\r\n')
  const ends = [...cuts, bytes.length].sort((a, b) => a - b)
  let problem: string | undefined
  let start = 0
  for (const end of ends) {
    memory.fill(':7\r\n')
    bytes.copy(memory, 0, start, end)
    problem = parser.push(memory, end - start)
    start = end
  }
  return { replies, problem }
}

test('each kind of reply is parsed', () => {
  const table: readonly [string, readonly RedisReply[]][] = [
    [':0\r\n', [0]],
    [':-1\r\n:12\r\n', [-1, 12]],
    [':-0\r\n', [0]],
    [':9007199254740991\r\n:-9007199254740991\r\n', [2 ** 53 - 1, 1 - 2 ** 53]],
    [':9007199254740992\r\n:-9007199254740993\r\n', [2n ** 53n, -(2n ** 53n) - 1n]],
    [':9223372036854775807\r\n:-9223372036854775808\r\n', [2n ** 63n - 1n, -(2n ** 63n)]],
    ['+OK\r\n+\r\n', ['OK', '']],
    ['$-1\r\n*-1\r\n', [null, null]],
    ['$0\r\n\r\n$5\r\na\r\nbc\r\n$3\r\n€\r\n', ['', 'a\r\nbc', '€']],
    ['-READONLY You cannot\r\n-\r\n', [{ error: 'READONLY You cannot' }, { error: '' }]],
    ['*0\r\n*2\r\n:1\r\n*2\r\n$1\r\na\r\n-ERR\r\n', [[], [1, ['a', { error: 'ERR' }]]]],
  ]
  for (const [text, replies] of table) {
    assert.deepEqual(parse(Buffer.from(text)), { replies, problem: undefined }, JSON.stringify(text))
  }
})

test('malformed bytes are rejected, whole or in pieces, and not quoted', () => {
  const table: readonly [string, RegExp][] = [
    ['HTTP/1.1 400 Bad Request\r\n', /unknown type/],
    ['\r\n', /unknown type/],
    ['%1\r\n+a\r\n:1\r\n', /unknown type/],
    [':\r\n', /without digits/],
    [':-\r\n', /without digits/],
    [':+1\r\n', /without digits/],
    [':1.5\r\n', /does not end/],
    [':1\n', /does not end/],
    [':1\rx', /does not end/],
    [':12345678901234567890', /more than 19 digits/],
    ['$1048577\r\n', /length outside -1 to 1048576/],
    ['$-2\r\n', /length outside -1 to/],
    ['$9223372036854775807\r\n', /length outside -1 to/],
    ['*1048577\r\n', /length outside -1 to/],
    ['$1\r\nab\r\n', /does not end/],
    ['$1\r\na\rx', /does not end/],
    ['+a\nb\r\n', /does not end/],
    ['+a\rb\r\n', /does not end/],
    [`-${'x'.repeat(16_385)}`, /line of more than 16384 bytes/],
    [`${'*1\r\n'.repeat(9)}`, /more than 8 deep/],
    [`*2\r\n:1\r\n!1\r\n`, /unknown type/],
  ]
  for (const [text, words] of table) {
    const bytes = Buffer.from(`:5\r\n${text}`)
    const splits = [[], [4], [5], bytes.length < 100 ? [...bytes.keys()] : [100]]
    for (const cuts of splits) {
      const { replies, problem = '' } = parse(bytes, cuts)
      assert.deepEqual(replies, [5], text.slice(0, 40))
      assert.match(problem, words, text.slice(0, 40))
      assert.doesNotMatch(problem, /HTTP|xx/)
    }
  }
})

test('nothing more is parsed after an error', () => {
  const replies: RedisReply[] = []
  const parser = createReplyParser(reply => replies.push(reply))
  const problem = parser.push(Buffer.from('?'), 1)
  assert.ok(problem)
  assert.equal(parser.push(Buffer.from(':1\r\n'), 4), problem)
  assert.deepEqual(replies, [])
})

test('the limit of a reply includes all items of an array', () => {
  const limits = { maxLineBytes: 10, maxReplyBytes: 100 }
  const problemOf = (text: string) => parse(Buffer.from(text), [10], limits).problem
  assert.equal(problemOf(`*20\r\n${':1\r\n'.repeat(20)}`), undefined)
  assert.match(problemOf(`*90\r\n${':1\r\n'.repeat(89)}`) ?? '', /more than 100 bytes/)
})

/** Encodes a reply in the simplest way. */
function encode(reply: RedisReply, bulk: boolean): string {
  if (reply === null) return '$-1\r\n'
  if (Array.isArray(reply)) return `*${reply.length}\r\n${reply.map(item => encode(item, bulk)).join('')}`
  if (isErrorReply(reply)) return `-${reply.error}\r\n`
  if (typeof reply !== 'string') return `:${reply}\r\n`
  const isLine = !bulk && !/[\r\n]/.test(reply)
  return isLine ? `+${reply}\r\n` : `$${Buffer.byteLength(reply)}\r\n${reply}\r\n`
}

test('replies are parsed as they were written, wherever they are cut', () => {
  const text = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 20 }),
    fc.constantFrom('\r\n', ':1\r\n', '$5', 'x'.repeat(3_000)),
  )
  const error = fc.string({ maxLength: 20 }).map(words => ({ error: words }))
  const integer = fc.oneof(
    fc.maxSafeInteger().map(value => value + 0),
    fc.bigInt(2n ** 53n, 2n ** 63n - 1n),
    fc.bigInt(-(2n ** 63n), -(2n ** 53n)),
  )
  const { reply } = fc.letrec<{ reply: RedisReply }>(tie => ({
    reply: fc.oneof({ maxDepth: 4 }, integer, text, error, fc.constant(null), fc.array(tie('reply'))),
  }))
  const replies = fc.array(reply, { maxLength: 12 })
  const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 })
  fc.assert(
    fc.property(replies, cuts, fc.boolean(), (written, shares, bulk) => {
      const bytes = Buffer.from(written.map(each => encode(each, bulk)).join(''))
      const places = shares.map(share => Math.floor(share * bytes.length))
      assert.deepEqual(parse(bytes, places), { replies: written, problem: undefined })
    }),
    { numRuns: 500 },
  )
})

test('replies that arrive byte by byte are parsed', () => {
  const text = ':12\r\n$5\r\nab\r\nc\r\n-ERR no\r\n*2\r\n+OK\r\n$-1\r\n:-9223372036854775808\r\n'
  const bytes = Buffer.from(text)
  const whole = parse(bytes)
  assert.equal(whole.replies.length, 5)
  assert.deepEqual(parse(bytes, [...bytes.keys()]), whole)
})

test('no bytes make it throw or loop', () => {
  const noise = fc.oneof(
    fc.uint8Array({ maxLength: 60 }),
    fc
      .array(fc.constantFrom(':', '$', '*', '+', '-', '1', '9', '\r', '\n', '\r\n', 'a'), { maxLength: 40 })
      .map(parts => Buffer.from(parts.join(''))),
  )
  fc.assert(
    fc.property(noise, fc.nat(60), (noisy, cut) => {
      const bytes = Buffer.from(noisy)
      const whole = parse(bytes)
      const place = Math.min(cut, bytes.length)
      assert.deepEqual(parse(bytes, [place]), whole)
    }),
    { numRuns: 2_000 },
  )
})
