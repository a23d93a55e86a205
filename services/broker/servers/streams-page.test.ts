import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LoggedRequest } from '../stream-log/stream-log.ts'
import { streamsText } from './streams-page.ts'

/** Requests whose ids have four bytes a character. */
const requests = Array.from({ length: 500 }, (_, index) => ({
  request: {
    ...{ key: `key-${index}`, sourceServiceId: '', route: 'shop/a', openedMs: 0, ended: index % 2 === 0 },
    ids: { streamId: '🎬'.repeat(50), requestId: `${index}`, targetObjectId: '' },
    end: undefined,
  } as unknown as LoggedRequest,
  producer: undefined,
  received: undefined,
  consumers: [],
}))
const broker = { requests: () => requests, waitingPulls: 3 }

test('a list is cut to a number of bytes, and has the number of all requests', () => {
  for (const maxBytes of [100, 1_000, 50_000, 10_000_000]) {
    const text = streamsText(broker, 1_000, maxBytes)
    assert.ok(Buffer.byteLength(text) <= maxBytes, `${Buffer.byteLength(text)} of ${maxBytes}`)
    const { total, waitingPulls, streams } = JSON.parse(text)
    assert.deepEqual([total, waitingPulls], [500, 3])
    assert.equal(streams.length === 500, maxBytes === 10_000_000)
    assert.ok(streams.every((stream: { ended: boolean }, index: number) => stream.ended === index >= 250))
  }
})
