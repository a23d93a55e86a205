import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { fromBinary } from '@bufbuild/protobuf'
import { StreamRouteSchema } from '@tollway/proto/tollway/broker/v1/stream_route'
import { CORE_SCHEMA, load } from 'js-yaml'
import { decodeRoute } from '../../../services/broker/routes/decode-route.ts'
import { routeTypeUrl as askedFor } from '../../../services/broker/routes/route-table.ts'
import { goldenTests } from '../../../test/support/golden.ts'
import type { OpenedStreamRoute, StreamRoute } from '../../model.ts'
import {
  encodeStreamRoute,
  showStreamRoute,
  streamRouteType,
  translateAnimationStreamRoute,
} from './stream-route.ts'

const route: StreamRoute = {
  name: 'shop/kiosk',
  match: { sourceServiceId: 'a2f', streamIdPrefix: 'kiosk-', targetObjectId: 'claire' },
  rules: {
    order: 'reject',
    timeCodes: 'warn',
    counts: 'off',
    audio: 'reject',
    audioFormats: [{ channelCount: 2, samplesPerSecond: 22_050, bitsPerSample: 0 }],
  },
  lateJoiners: { from: 'last', seconds: 5 },
  slowConsumers: 'drop-oldest',
  concurrentRequests: 'newest',
  limits: {
    messageBytes: 65_536,
    bufferBytes: 1_073_741_824,
    bufferSeconds: 10,
    idleSeconds: 15,
    totalSeconds: 600,
    consumers: 20,
    streams: 5,
  },
  tokenSecret: { name: 'kiosk-tokens', key: 'token' },
}
const tokenHashes = [new Uint8Array(32), new Uint8Array(32).fill(7)]
const opened = (more: Partial<StreamRoute> = {}): OpenedStreamRoute => ({
  route: { ...route, ...more },
  createdMs: 1_780_000_000_123,
  tokens: { push: tokenHashes, pull: tokenHashes },
})

test('a broker decodes every field of a route as it was encoded', () => {
  const { tokenSecret: _, ...seen } = route
  assert.deepEqual(decodeRoute(encodeStreamRoute(opened()).bytes, 'resource 1'), {
    kind: 'route',
    route: { ...seen, createdMs: 1_780_000_000_123, tokens: { push: tokenHashes, pull: tokenHashes } },
  })
  assert.equal(streamRouteType, askedFor)
})

for (const lateJoiners of [{ from: 'now' }, { from: 'start' }] as const)
  for (const slowConsumers of ['wait', 'drop-oldest', 'cut-off'] as const)
    for (const concurrentRequests of ['queue', 'newest', 'refuse'] as const) {
      test(`a broker decodes ${lateJoiners.from}, ${slowConsumers}, ${concurrentRequests}`, () => {
        const words = { lateJoiners, slowConsumers, concurrentRequests }
        const decoded = decodeRoute(encodeStreamRoute(opened(words)).bytes, 'resource 1')
        assert.ok('route' in decoded)
        const { lateJoiners: from, slowConsumers: slow, concurrentRequests: many } = decoded.route
        assert.deepEqual({ lateJoiners: from, slowConsumers: slow, concurrentRequests: many }, words)
      })
    }

test('a broker reads the tokens of each right, and an older broker reads all of them', () => {
  const [a, b, c] = [1, 2, 3].map(byte => new Uint8Array(32).fill(byte)) as [
    Uint8Array,
    Uint8Array,
    Uint8Array,
  ]
  for (const [tokens, all] of [
    [{ push: [a, b], pull: [a, c] }, [a, b, c]],
    [{ push: [a], pull: [] }, [a]],
    [{ push: [], pull: [c] }, [c]],
  ] as const) {
    const { bytes } = encodeStreamRoute({ ...opened(), tokens })
    const decoded = decodeRoute(bytes, 'resource 1')
    assert.ok('route' in decoded)
    assert.deepEqual(decoded.route.tokens, tokens)
    assert.deepEqual(fromBinary(StreamRouteSchema, bytes).tokenHashes, all)
  }
})

test('the encoding does not contain the name of the Secret', () => {
  const { bytes } = encodeStreamRoute(opened())
  assert.doesNotMatch(Buffer.from(bytes).toString('latin1'), /kiosk-tokens/)
})

test('the encoding never changes, so that an upgrade makes no broker load again', () => {
  assert.equal(encodeStreamRoute(opened()).hash, '6b5c7343bc4cd3fa4361496a3e7f43bf')
})

test('the JSON form shows the message to people', () => {
  const shown = showStreamRoute(encodeStreamRoute(opened()).bytes) as Record<string, unknown>
  assert.equal(shown['lateJoiners'], 'last')
  assert.equal(shown['createdMs'], '1780000000123')
})

test('a broker gets the webhook with its secrets, and the JSON form only their number', () => {
  const webhook = {
    url: 'https://example.org/hook',
    secrets: [1, 2].map(byte => `whsec_${Buffer.alloc(24, byte).toString('base64')}`),
  }
  const { bytes } = encodeStreamRoute({ ...opened(), webhook })
  const decoded = decodeRoute(bytes, 'resource 1')
  assert.ok('route' in decoded)
  assert.deepEqual(decoded.route.webhook, webhook)
  const shown = showStreamRoute(bytes) as Record<string, unknown>
  assert.deepEqual(shown['webhook'], { ...webhook, secrets: ['(hidden)', '(hidden)'] })
})

goldenTests(join(import.meta.dirname, 'testdata/animationstreamroute'), text => {
  const resource = load(text, { schema: CORE_SCHEMA }) as {
    metadata: { namespace?: string; name: string }
  }
  const { namespace = 'default', name } = resource.metadata
  return translateAnimationStreamRoute(`${namespace}/${name}`, resource)
})
