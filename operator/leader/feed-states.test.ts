import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Feed } from '../xds/feed.ts'
import { createFeedStates } from './feed-states.ts'

const names = Array.from({ length: 30 }, (_, index) => `shop/limits-${index}`)
const rejections = Array.from({ length: 120 }, (_, index) => ({ pod: `pod-${index}`, message: 'no' }))

/** A feed whose 120 pods reject each of 30 resources. */
const feed = {
  published: () => ({ version: 'v1', resources: new Map(names.map(name => [name, {}])) }),
  podsByVersion: () => new Map([['v1', new Set(['a', 'b'])]]),
  clients: () => [],
  enforcement: () => () => ({ rejections }),
} as unknown as Feed

test('an answer has at most 100 rejections of a resource, 1,000 in all, and their number', async () => {
  const { rejections: found, ...state } = await createFeedStates(feed).read('type', names)
  assert.deepEqual(state, { version: 'v1', versions: [{ version: 'v1', pods: 2 }] })
  const counts = names.map(name => found[name] ?? assert.fail(name))
  assert.deepEqual([counts[0]?.shown.length, counts[0]?.unlisted], [100, 20])
  assert.deepEqual([counts[29]?.shown.length, counts[29]?.unlisted], [0, 120])
  assert.equal(
    counts.reduce((sum, { shown }) => sum + shown.length, 0),
    1_000,
  )
})
