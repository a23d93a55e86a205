import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import type { RateLimitDomain } from '@tollway/ratelimit/rules/rate-limit-domain.ts'
import { rateLimitTypeUrl } from '@tollway/ratelimit/rules/rate-limit-domain.ts'
import { encodeRateLimitDomain } from '../kinds/rate-limit-config/rate-limit-config.ts'
import { createContentFeed } from './content-feed.ts'
import { Feed } from './feed.ts'

function domain(name: string): RateLimitDomain {
  return { name, domain: name.replace('/', '-'), descriptors: [] }
}

function start() {
  const feed = new Feed({
    typeUrls: [rateLimitTypeUrl],
    ids: () => '1',
    clock: systemClock,
    log: silentLog,
  })
  return {
    feed,
    contents: createContentFeed(feed, { typeUrl: rateLimitTypeUrl, encode: encodeRateLimitDomain }),
  }
}

test('domains are published as resources of their names, whatever their order', () => {
  const [one, other] = [start(), start()]
  one.contents.publish([domain('shop/b'), domain('shop/a')])
  other.contents.publish([domain('shop/a'), domain('shop/b')])
  const published = one.feed.published(rateLimitTypeUrl)
  assert.deepEqual([...(published?.resources.keys() ?? [])], ['shop/a', 'shop/b'])
  assert.deepEqual(published?.resources.get('shop/a'), encodeRateLimitDomain(domain('shop/a')))
  assert.equal(published?.version, other.feed.published(rateLimitTypeUrl)?.version)
})

test('a feed without domains publishes an empty snapshot', () => {
  const { feed, contents } = start()
  assert.equal(feed.published(rateLimitTypeUrl), undefined)
  contents.publish([])
  assert.equal(feed.published(rateLimitTypeUrl)?.resources.size, 0)
})

test('enforcement is looked up by content', () => {
  const { contents } = start()
  contents.publish([domain('shop/a')])
  assert.deepEqual(contents.enforcement(['pod-1'])(domain('shop/a')), {
    acknowledged: new Set(),
    rejections: [],
    pending: ['pod-1'],
    lacking: [],
  })
})
