import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { before, test } from 'node:test'
import {
  type ApiUnderTest,
  merchantInput,
  openShop,
  payAt,
  sharedApi,
  type TestShop,
} from './api-under-test.ts'

/** The types of the public client, the npm package `paylike` 2.0.2. The tests use it as its README does. */
interface Cursor {
  limit(limit?: number): Cursor
  filter(filter: object): Cursor
  sort(sort: object): Cursor
  before(id: string): Cursor
  after(id: string): Cursor
  since(date: Date): Cursor
  until(date: Date): Cursor
  batchSize(size: number): Cursor
  toArray(): Promise<Fields[]>
}

type Fields = { readonly id: string } & Record<string, unknown>

interface Client {
  setKey(key: string): void
  readonly NotFoundError: ErrorClass
  readonly AuthorizationError: ErrorClass
  readonly ValidationError: ErrorClass
  readonly apps: {
    create(input: object): Promise<Fields & { key: string }>
    findOne(): Promise<Fields>
    readonly merchants: { find(appId: string): Cursor }
  }
  readonly merchants: {
    create(input?: object): Promise<string>
    update(id: string, input: object): Promise<undefined>
    findOne(id: string): Promise<Fields>
    readonly users: {
      add(id: string, input: object): Promise<undefined>
      revoke(id: string, userId: string): Promise<undefined>
      find(id: string): Cursor
    }
    readonly apps: {
      add(id: string, input: object): Promise<undefined>
      revoke(id: string, appId: string): Promise<undefined>
      find(id: string): Cursor
    }
    readonly lines: { find(id: string): Cursor }
    readonly transactions: { create(id: string, input: object): Promise<string>; find(id: string): Cursor }
  }
  readonly transactions: {
    capture(id: string, input: object): Promise<undefined>
    refund(id: string, input: object): Promise<undefined>
    void(id: string, input: object): Promise<undefined>
    findOne(id: string): Promise<Fields>
  }
  readonly cards: { create(id: string, input: object): Promise<string>; findOne(id: string): Promise<Fields> }
}

type ErrorClass = new () => Error & { readonly data?: unknown }

const paylike = createRequire(import.meta.url)('paylike') as (key: string, options: object) => Client

let api: ApiUnderTest
let shop: TestShop
let client: Client

before(async () => {
  api = await sharedApi()
  shop = await openShop(api)
  client = paylike(shop.key, { url: api.url })
})

test('apps are created without a key, and found by their own key', async () => {
  const stranger = paylike('', { url: api.url })
  const app = await stranger.apps.create({ name: 'Coffee & Jane' })
  stranger.setKey(app.key)
  assert.deepEqual(await stranger.apps.findOne(), { id: app.id, name: 'Coffee & Jane' })
  assert.deepEqual(await stranger.apps.merchants.find(app.id).limit(10).toArray(), [])
})

test('merchants are created, found, updated and listed', async () => {
  const id = await client.merchants.create(merchantInput)
  assert.equal(await client.merchants.update(id, { name: 'Coffee Jane' }), undefined)
  const merchant = await client.merchants.findOne(id)
  assert.deepEqual({ id: merchant.id, name: merchant['name'] }, { id, name: 'Coffee Jane' })
  const all = await client.apps.merchants.find(shop.appId).batchSize(1).toArray()
  assert.deepEqual(
    all.map(one => one.id),
    [id, shop.merchantId],
  )
  const tests = await client.apps.merchants.find(shop.appId).filter({ test: true }).limit(2).toArray()
  assert.equal(tests.length, 2)
  assert.deepEqual(await client.apps.merchants.find(shop.appId).filter({ test: false }).toArray(), [])
})

test('validation errors are a list', async () => {
  const rejected = await client.merchants.create().then(
    () => assert.fail('it was accepted'),
    (error: InstanceType<ErrorClass>) => error,
  )
  assert.ok(rejected instanceof client.ValidationError)
  assert.ok(rejected.message !== '' && Array.isArray(rejected.data))
})

test('users and apps are added, listed and revoked', async () => {
  const { merchants } = client
  const id = await merchants.create(merchantInput)
  assert.equal(await merchants.users.add(id, { email: 'one@example.com' }), undefined)
  const [user] = await merchants.users.find(id).limit().toArray()
  assert.equal(user?.['email'], 'one@example.com')
  assert.equal(await merchants.users.revoke(id, user?.id ?? ''), undefined)
  assert.deepEqual(await merchants.users.find(id).toArray(), [])

  const other = await paylike('', { url: api.url }).apps.create({})
  assert.equal(await merchants.apps.add(id, { appId: other.id }), undefined)
  assert.equal((await merchants.apps.find(id).toArray()).length, 2)
  assert.equal(await merchants.apps.revoke(id, other.id), undefined)
  assert.equal((await merchants.apps.find(id).toArray()).length, 1)
})

test('captures, refunds and voids change the amounts as in the public service', async () => {
  const { merchants, transactions } = client
  const first = await payAt(api, shop)
  const recurring = () => {
    const custom = { source: 'client' }
    return merchants.transactions.create(shop.merchantId, {
      transactionId: first.id,
      currency: 'EUR',
      amount: 300,
      custom,
    })
  }
  const cases = [
    [{ captured: 100, pending: 200 }, [['capture', 100]]],
    [
      { captured: 200, pending: 100, refunded: 120 },
      [
        ['capture', 200],
        ['refund', 120],
      ],
    ],
    [{ voided: 260, pending: 40 }, [['void', 260]]],
  ] as const
  for (const [expected, steps] of cases) {
    const id = await recurring()
    for (const [step, amount] of steps) assert.equal(await transactions[step](id, { amount }), undefined)
    const found = await transactions.findOne(id)
    for (const [name, amount] of Object.entries(expected)) assert.equal(found[`${name}Amount`], amount, name)
    const trail = found['trail'] as readonly Record<string, unknown>[]
    assert.deepEqual(
      trail.map(entry => [entry['amount'], steps.some(([step]) => entry[step] === true)]),
      steps.map(([, amount]) => [amount, true]),
    )
    assert.deepEqual(found['custom'], { source: 'client' })
  }
  const lines = await merchants.lines.find(shop.merchantId).limit(1).toArray()
  assert.ok(lines.length === 1 && lines[0]?.id)
})

test('cards are saved and charged', async () => {
  const first = await payAt(api, shop)
  const cardId = await client.cards.create(shop.merchantId, { transactionId: first.id })
  const { bin, last4, scheme } = await client.cards.findOne(cardId)
  assert.deepEqual([bin, last4, scheme], ['410000', '0001', 'visa'])
  const input = { cardId, currency: 'DKK', amount: 50 }
  const id = await client.merchants.transactions.create(shop.merchantId, input)
  assert.equal((await client.transactions.findOne(id))['recurring'], true)
})

test('cursors page through lists in both directions, from an element or a time', async () => {
  const other = await openShop(api)
  const walker = paylike(other.key, { url: api.url })
  const ids: string[] = []
  for (let index = 0; index < 5; index += 1) ids.unshift((await payAt(api, other)).id)
  api.clock.elapse(5_000)
  const since = new Date(api.clock.nowMs())
  api.clock.elapse(5_000)
  const later = [(await payAt(api, other)).id, (await payAt(api, other)).id]
  const all = [...later].reverse().concat(ids)
  const find = () => walker.merchants.transactions.find(other.merchantId)
  const idsOf = async (cursor: Cursor) => (await cursor.toArray()).map(({ id }) => id)
  assert.deepEqual(await idsOf(find().batchSize(2)), all)
  assert.deepEqual(await idsOf(find().limit(3)), all.slice(0, 3))
  assert.deepEqual(await idsOf(find().before(all[2] ?? '')), all.slice(3))
  assert.deepEqual(
    await idsOf(
      find()
        .after(all[2] ?? '')
        .batchSize(1),
    ),
    later,
  )
  assert.deepEqual(await idsOf(find().since(since)), later)
  assert.deepEqual(await idsOf(find().until(since).batchSize(2)), ids)
  assert.deepEqual(
    await idsOf(find().sort({ created: 1 }).limit(2).batchSize(2)),
    [...all].reverse().slice(0, 2),
  )
})

test('errors have the classes that the client distinguishes', async () => {
  const { id } = await payAt(api, shop)
  await assert.rejects(client.transactions.capture(id, { amount: 5_000 }), client.ValidationError)
  await assert.rejects(client.transactions.findOne('560fd96b7973ff3d2362a78c'), client.NotFoundError)
  const stranger = paylike('tollway_nobody', { url: api.url })
  await assert.rejects(stranger.transactions.findOne(id), client.AuthorizationError)
})
