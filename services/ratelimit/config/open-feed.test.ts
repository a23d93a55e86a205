import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inShort, type Response, startServer } from '../../xds-client/testing/management-server.ts'
import { rateLimitTypeUrl } from '../rules/model.ts'
import { response, startFeed } from './testing/start-feed.ts'

test('resources are requested by their type and become active', async t => {
  const server = await startServer(t)
  const { inForce } = startFeed(t, server.address)
  const stream = await server.stream(0)
  assert.equal((await stream.heard()).typeUrl, rateLimitTypeUrl)
  for (const [version, text] of [
    ['v1', 'a:1'],
    ['v2', 'a:2 b:1'],
    ['v3', ''],
  ] as const) {
    stream.send(response(version, text))
    assert.equal(inShort(await stream.heard()), `ack ${version} (nonce of ${version})`)
    assert.equal(inForce(), text)
  }
})

test('a rejection has a line for each problem, and keeps the version and the active limits', async t => {
  const server = await startServer(t)
  const { inForce, rejections, errors } = startFeed(t, server.address)
  const stream = await server.stream(0)
  await stream.heard()
  stream.send(response('v1', 'a:1'))
  await stream.heard()
  stream.send(response('v2', 'a:2 b:wrong c:wrong'))
  const rejection = await stream.heard()
  assert.equal(inShort(rejection), 'nack v1 (nonce of v2)')
  assert.equal(rejection.errorDetail?.code, 3)
  const lines = rejection.errorDetail?.message.split('\n') ?? []
  assert.equal(lines.length, 2)
  assert.match(lines[0] ?? '', /^shop\/b: invalid rate limit unit '' \(at descriptors\[0\]\.rateLimit\.unit/)
  assert.match(lines[1] ?? '', /^shop\/c: invalid rate limit unit ''/)
  assert.deepEqual(
    errors,
    lines.map(line => `Error loading new configuration: ${line}`),
  )
  assert.equal(inForce(), 'a:1')
  stream.send(response('v3', 'a:3'))
  assert.equal(inShort(await stream.heard()), 'ack v3 (nonce of v3)')
  assert.equal(inForce(), 'a:3')
  assert.equal(rejections(), 1)
})

const malformed: readonly [string, Response, RegExp[]][] = [
  [
    'a response of another type, which would be an empty configuration',
    response('v2', '', { typeUrl: 'type.googleapis.com/other.Type' }),
    [/^response: its type is 'type\.googleapis\.com\/other\.Type', not /],
  ],
  [
    'resources of another type, and malformed bytes',
    response('v2', '', {
      resources: [
        { typeUrl: 'type.googleapis.com/other.Type', value: new Uint8Array() },
        { typeUrl: rateLimitTypeUrl, value: Uint8Array.of(0x0a, 0xff) },
      ],
    }),
    [/^resources\[0\]: its type is 'type\.googleapis\.com\/other\.Type'/, /^resources\[1\]: /],
  ],
  ['a domain twice', response('v2', 'b:1 b:2'), [/^shop\/b: duplicate domain 'b' in config file/]],
]

test('a response without a configuration is rejected as a whole', async t => {
  for (const [what, wrong, expected] of malformed) {
    await t.test(what, async t => {
      const server = await startServer(t)
      const { inForce, rejections } = startFeed(t, server.address)
      const stream = await server.stream(0)
      await stream.heard()
      stream.send(response('v1', 'a:1'))
      await stream.heard()
      stream.send(wrong)
      const rejection = await stream.heard()
      assert.equal(inShort(rejection), 'nack v1 (nonce of v2)')
      const lines = rejection.errorDetail?.message.split('\n') ?? []
      assert.equal(lines.length, expected.length, rejection.errorDetail?.message)
      for (const [index, line] of lines.entries()) assert.match(line, expected[index] ?? /never/)
      assert.equal(inForce(), 'a:1')
      assert.equal(rejections(), 1)
    })
  }
})
