import assert from 'node:assert/strict'
import { test } from 'node:test'
import { playedResource, serveApi } from '../testing/serve-api.ts'

const count = 5
const numbers = Array.from({ length: count }, (_, index) => index)
const routes = numbers.map(index => playedResource('AnimationStreamRoute', `space-${index % 2}`, `r${index}`))
const merchants = numbers.map(index => playedResource('Merchant', 'shop', `m${index}`))

const requestOf = (index: number) => ({
  key: `k${index}`,
  streamId: `s${index}`,
  requestId: 'r',
  targetObjectId: '',
  sourceServiceId: '',
  route: '',
  ageMs: index,
  ended: false,
  producer: null,
  consumers: [],
})
const page = { waitingPulls: 0, total: count, streams: numbers.map(requestOf) }

const lists: readonly (readonly [path: string, items: readonly string[]])[] = [
  [
    '/resources?kind=AnimationStreamRoute',
    ['space-0/r0', 'space-0/r2', 'space-0/r4', 'space-1/r1', 'space-1/r3'],
  ],
  ['/resources?kind=AnimationStreamRoute&namespace=space-1', ['space-1/r1', 'space-1/r3']],
  ['/merchants', ['shop/cafe', ...numbers.map(index => `shop/m${index}`)]],
  ['/streams', numbers.map(index => `k${index}`)],
]

for (const [path, expected] of lists)
  for (const limit of [1, 2, 5, 1_000])
    test(`${path} has each item on one page, with at most ${limit} on a page`, async t => {
      const brokers = [{ address: 'broker-0', page }]
      const { ask } = await serveApi(t, { more: [...routes, ...merchants], brokers })
      const found: string[] = []
      let next: string | undefined
      do {
        const query = new URLSearchParams({ limit: `${limit}`, ...(next !== undefined && { after: next }) })
        const { status, body } = await ask(`${path}${path.includes('?') ? '&' : '?'}${query}`)
        assert.equal(status, 200, JSON.stringify(body))
        const items = body.items as unknown as readonly Readonly<Record<string, string>>[]
        assert.ok(items.length <= limit && items.length > 0)
        found.push(...items.map(({ key, namespace, name }) => key ?? `${namespace}/${name}`))
        next = body.next
      } while (next !== undefined && found.length < 100)
      assert.deepEqual(found, expected)
    })
