import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { StreamRouteSchema } from '@tollway/proto/tollway/broker/v1/stream_route'
import fc from 'fast-check'
import { decodeRoute } from './decode-route.ts'
import { defaultRoute } from './route.ts'

type Message = MessageInitShape<typeof StreamRouteSchema>

const encode = (message: Message) => toBinary(StreamRouteSchema, create(StreamRouteSchema, message))
const decode = (message: Message) => decodeRoute(encode({ name: 'shop/hero', ...message }), 'resources[0]')

test('missing fields have defaults', () => {
  assert.deepEqual(decode({}), { kind: 'route', route: { ...defaultRoute, name: 'shop/hero' } })
  assert.deepEqual(decode({ match: {}, rules: {}, limits: {} }), decode({}))
})

test('every field is decoded', () => {
  const match = { sourceServiceId: 'a2f', streamIdPrefix: 'game-', targetObjectId: 'hero' }
  const modes = { order: 'reject', timeCodes: 'off', counts: 'warn', audio: 'reject' } as const
  const audioFormats = [{ channelCount: 2, samplesPerSecond: 0, bitsPerSample: 24 }]
  const hash = new Uint8Array(32).fill(7)
  const seconds = { bufferSeconds: 2.5, idleSeconds: 3, totalSeconds: 4 }
  const counts = { consumers: 5, streams: 6 }
  const decoded = decode({
    createdMs: 1_700_000_000_000n,
    match,
    rules: { ...modes, audioFormats },
    lateJoiners: 'last',
    lateJoinerSeconds: 1.5,
    slowConsumers: 'drop-oldest',
    concurrentRequests: 'newest',
    limits: { messageBytes: 1000n, bufferBytes: 2000n, ...seconds, ...counts },
    tokenHashes: [hash],
  })
  assert.deepEqual(decoded, {
    kind: 'route',
    route: {
      name: 'shop/hero',
      createdMs: 1_700_000_000_000,
      match,
      rules: { ...modes, audioFormats },
      lateJoiners: { from: 'last', seconds: 1.5 },
      slowConsumers: 'drop-oldest',
      concurrentRequests: 'newest',
      limits: { messageBytes: 1000, bufferBytes: 2000, ...seconds, ...counts },
      tokens: { push: [hash], pull: [hash] },
    },
  })
})

test('tokens of one right replace those of both', () => {
  const [push, pull] = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)]
  for (const [message, tokens] of [
    [
      { tokenHashes: [push, pull], pushTokenHashes: [push], pullTokenHashes: [pull] },
      { push: [push], pull: [pull] },
    ],
    [
      { tokenHashes: [push], pushTokenHashes: [push] },
      { push: [push], pull: [] },
    ],
    [{ tokenHashes: [push] }, { push: [push], pull: [push] }],
  ] as const) {
    const decoded = decode({ ...message, tokenHashes: [...message.tokenHashes] } as Message)
    assert.ok(decoded.kind === 'route')
    assert.deepEqual(decoded.route.tokens, tokens)
  }
})

const seconds = 'a number from 0.001 to 1728000'
const wrong: readonly (readonly [Message, string])[] = [
  [{ rules: { order: 'maybe' } }, 'rules.order: "maybe" is not allowed: one of off, warn, reject'],
  [{ rules: { timeCodes: 'WARN' } }, 'rules.timeCodes: "WARN" is not allowed: one of off, warn, reject'],
  [{ rules: { counts: 'a\nb' } }, 'rules.counts: "a\\nb" is not allowed: one of off, warn, reject'],
  [{ rules: { audio: ' ' } }, 'rules.audio: " " is not allowed: one of off, warn, reject'],
  [{ lateJoiners: 'never' }, 'lateJoiners: "never" is not allowed: one of now, start, last'],
  [{ lateJoiners: 'last' }, 'lateJoinerSeconds: 0 is not allowed: more than 0 where lateJoiners is last'],
  [{ lateJoiners: 'last', lateJoinerSeconds: -1 }, `lateJoinerSeconds: -1 is not allowed: ${seconds}`],
  [
    { lateJoiners: 'start', lateJoinerSeconds: 5 },
    'lateJoinerSeconds: 5 is not allowed: nothing where lateJoiners is not last',
  ],
  [{ slowConsumers: 'kill' }, 'slowConsumers: "kill" is not allowed: one of wait, drop-oldest, cut-off'],
  [
    { concurrentRequests: 'oldest' },
    'concurrentRequests: "oldest" is not allowed: one of queue, newest, refuse',
  ],
  [
    { limits: { messageBytes: 67_108_865n } },
    'limits.messageBytes: 67108865 is not allowed: a whole number from 1 to 67108864',
  ],
  [
    { limits: { bufferBytes: 2n ** 64n - 1n } },
    'limits.bufferBytes: 18446744073709551615 is not allowed: a whole number from 1 to 1073741824',
  ],
  [{ limits: { bufferSeconds: Number.NaN } }, `limits.bufferSeconds: NaN is not allowed: ${seconds}`],
  [
    { limits: { idleSeconds: Number.POSITIVE_INFINITY } },
    `limits.idleSeconds: Infinity is not allowed: ${seconds}`,
  ],
  [{ limits: { totalSeconds: -0.5 } }, `limits.totalSeconds: -0.5 is not allowed: ${seconds}`],
  [{ createdMs: -1n }, 'createdMs: -1 is not allowed: a whole number from 0 to 9007199254740991'],
  [
    { match: { streamIdPrefix: '🎮'.repeat(101) } },
    'match.streamIdPrefix: a text of 101 characters is not allowed: at most 100',
  ],
  [
    { tokenHashes: [new Uint8Array(32), new Uint8Array(31)] },
    'tokenHashes[1]: 31 bytes is not allowed: the 32 bytes of a SHA-256',
  ],
  [
    { tokenHashes: Array.from({ length: 1001 }, () => new Uint8Array(32)) },
    'tokenHashes: a list of 1001 is not allowed: at most 1000',
  ],
  [
    { rules: { audioFormats: Array.from({ length: 101 }, () => ({})) } },
    'rules.audioFormats: a list of 101 is not allowed: at most 100',
  ],
]

test('a problem names the field, the found and the allowed value', () => {
  for (const [message, problem] of wrong) {
    assert.deepEqual(decode(message), { kind: 'invalid', problems: [`shop/hero: ${problem}`] })
  }
})

test('all problems are reported', () => {
  const decoded = decode({ slowConsumers: 'a', concurrentRequests: 'b', limits: { idleSeconds: -1 } })
  assert.ok(decoded.kind === 'invalid')
  assert.equal(decoded.problems.length, 3)
})

test('a resource without a valid name is reported by its label', () => {
  for (const name of ['', 'hero', 'shop/hero/x', 'Shop/hero', 'shop/he ro', `shop/${'x'.repeat(254)}`]) {
    const decoded = decode({ name })
    assert.ok(decoded.kind === 'invalid', name)
    assert.match(decoded.problems[0] ?? '', /^resources\[0\]: name: ".*" is not allowed: namespace\/name/)
  }
  const malformed = decodeRoute(Uint8Array.of(0x0a, 0xff), 'resources[3]')
  assert.ok(malformed.kind === 'invalid')
  assert.match(malformed.problems[0] ?? '', /^resources\[3\]: ./)
})

test('mutated bytes are a route, or problems of one line each', () => {
  const seed = encode({
    name: 'shop/hero',
    match: { streamIdPrefix: 'game-' },
    rules: { order: 'warn', audioFormats: [{ channelCount: 2 }] },
    limits: { idleSeconds: 3, consumers: 5 },
    tokenHashes: [new Uint8Array(32)],
  })
  const edits = fc.array(fc.tuple(fc.nat(seed.length - 1), fc.nat(255)), { minLength: 1, maxLength: 3 })
  const property = fc.property(edits, list => {
    const bytes = seed.slice()
    for (const [at, value] of list) bytes[at] = value
    const decoded = decodeRoute(bytes, 'resources[0]')
    if (decoded.kind === 'route') return
    assert.ok(decoded.problems.length > 0)
    for (const problem of decoded.problems) assert.match(problem, /^[^\n]+: [^\n]+$/)
  })
  fc.assert(property, { numRuns: Number(process.env['FC_RUNS'] ?? 2_000) })
})

const signing = `whsec_${Buffer.alloc(32, 9).toString('base64')}`

test('a webhook has a URL and secrets', () => {
  const webhook = { url: 'https://example.org/hook', secrets: [signing] }
  const decoded = decode({ webhook })
  assert.ok(decoded.kind === 'route')
  assert.deepEqual(decoded.route.webhook, webhook)
})

test('an invalid webhook is rejected, and no problem quotes a secret', () => {
  const decoded = decode({ webhook: { url: 'file:///etc', secrets: ['canary', `${signing}!`] } })
  const form = '"whsec_" and 24 to 64 bytes in base64'
  assert.deepEqual(decoded, {
    kind: 'invalid',
    problems: [
      'shop/hero: webhook.url: "file:///etc" is not allowed: an http or https URL of at most 2048 characters',
      `shop/hero: webhook.secrets[0]: a text that does not begin with "whsec_" is not allowed: ${form}`,
      `shop/hero: webhook.secrets[1]: a text that has no base64 after "whsec_" is not allowed: ${form}`,
    ],
  })
  const url = 'https://example.org'
  assert.deepEqual(decode({ webhook: { url } }), {
    kind: 'invalid',
    problems: ['shop/hero: webhook.secrets: an empty list is not allowed: at least one'],
  })
})
