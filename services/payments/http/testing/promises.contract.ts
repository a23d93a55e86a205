import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { before, test } from 'node:test'
import { KeyedRateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { readSettings } from '@tollway/chassis/settings.ts'
import { createMetrics } from '../../metrics.ts'
import { closeProvisionedMerchant } from '../../operations/accounts/provision-merchant.ts'
import { expireAuthorisations } from '../../operations/background/expire-authorisations.ts'
import { payOutMerchant } from '../../operations/background/pay-out.ts'
import { eventTypes } from '../../operations/events.ts'
import { raiseDisputeByHand, resolveDisputeByHand } from '../../operations/transactions/disputes.ts'
import { settings } from '../../settings.ts'
import { transact } from '../../storage/storage.ts'
import { createTasks } from '../../tasks.ts'
import { createApiServer } from '../servers/api-server.ts'
import {
  type ApiUnderTest,
  merchantInput,
  openShop,
  payAt,
  sharedApi,
  type TestShop,
} from './api-under-test.ts'

/** A record in an answer of the API. */
type Fields = Readonly<Record<string, unknown>> & { readonly id: string }

let api: ApiUnderTest
let shop: TestShop
before(async () => {
  api = await sharedApi()
  shop = await openShop(api, { ...merchantInput, bank: { iban: 'DK5000400440116243' } })
})

async function call(
  method: string,
  path: string,
  json?: object,
  key = shop.key,
): Promise<Record<string, Fields>> {
  const answer = await api.call(method, path, { key, ...(json === undefined ? {} : { json }) })
  assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${answer.text}`)
  return answer.json as Record<string, Fields>
}

const statusOf = async (method: string, path: string, key: string) =>
  (await api.call(method, path, { key })).status

async function list(path: string, key = shop.key): Promise<readonly Fields[]> {
  return (await call('GET', `${path}?limit=100`, undefined, key)) as unknown as readonly Fields[]
}

async function dispute(transactionId: string, outcome: 'won' | 'lost'): Promise<void> {
  const raised = await transact(api.payments.storage, tx =>
    raiseDisputeByHand(tx, api.payments, { transactionId, amount: 100n, reason: null, dueMs: null }),
  )
  assert.ok(raised.ok)
  await transact(api.payments.storage, tx =>
    resolveDisputeByHand(tx, api.payments, { disputeId: raised.value.id, outcome }),
  )
}

const payOutNow = (period: string, { merchantId }: TestShop) =>
  transact(api.payments.storage, tx => payOutMerchant(tx, api.payments, { merchantId, period }))

test('an invitation is sent once to an address that is not yet a member of the merchant', async () => {
  const other = await openShop(api)
  const email = 'invited@example.com'
  const invite = async ({ merchantId, key }: TestShop, address = email) =>
    (await call('POST', `/merchants/${merchantId}/users`, { email: address }, key))['user']?.id ?? ''
  const mails = async () =>
    (
      await api.storage.transaction(tx =>
        tx.query('SELECT 1 AS one FROM mails WHERE recipient = $1', [email]),
      )
    ).length
  const userId = await invite(shop)
  assert.equal(await mails(), 1)
  assert.equal(await invite(shop), userId)
  assert.equal(await invite(shop, 'Invited@example.com'), userId)
  assert.equal(await mails(), 1)
  assert.notEqual(await invite(other), userId)
  assert.equal(await mails(), 2)
  await call('DELETE', `/merchants/${shop.merchantId}/users/${userId}`)
  assert.deepEqual(await list(`/merchants/${shop.merchantId}/users`), [])
  assert.equal((await list(`/merchants/${other.merchantId}/users`, other.key)).length, 1)
  await invite(shop)
  assert.equal(await mails(), 3)
})

test('an added app has complete access, and its key is not shown', async () => {
  const owner = await openShop(api)
  const { app: second } = (await api.call('POST', '/apps', { json: { name: 'books' } })).json as {
    app: Fields & { key: string }
  }
  const merchant = `/merchants/${owner.merchantId}`
  const { id } = await payAt(api, owner)
  assert.equal(await statusOf('GET', merchant, second.key), 404)
  await call('POST', `${merchant}/apps`, { appId: second.id }, owner.key)
  assert.deepEqual(await list(`${merchant}/apps`, owner.key), [
    { id: second.id, name: 'books' },
    { id: owner.appId, name: 'till' },
  ])
  const [own] = await list(`/identities/${second.id}/merchants`, second.key)
  assert.equal(own?.id, owner.merchantId)
  await call('POST', `/transactions/${id}/captures`, { amount: 10 }, second.key)
  await call('POST', `${merchant}/users`, { email: 'books@example.com' }, second.key)
  await call('PUT', merchant, { name: 'Books' }, second.key)
  await call('DELETE', `${merchant}/apps/${owner.appId}`, undefined, second.key)
  assert.deepEqual(
    [await statusOf('GET', merchant, owner.key), await statusOf('GET', `/transactions/${id}`, owner.key)],
    [404, 404],
  )
  assert.deepEqual(await list(`/identities/${owner.appId}/merchants`, owner.key), [])
  assert.equal(await statusOf('GET', merchant, second.key), 200)
})

test('the last app of a merchant cannot be revoked, also if two revoke each other at once', async () => {
  const owner = await openShop(api)
  const revoke = (key: string, appId: string) =>
    statusOf('DELETE', `/merchants/${owner.merchantId}/apps/${appId}`, key)
  assert.equal(await revoke(owner.key, owner.appId), 409)
  for (let round = 0; round < 5; round += 1) {
    const shop = await openShop(api)
    const { app } = await call('POST', '/apps', {})
    const { id = '', key } = (app ?? {}) as { id?: string; key?: string }
    await call('POST', `/merchants/${shop.merchantId}/apps`, { appId: id }, shop.key)
    const path = `/merchants/${shop.merchantId}/apps`
    const statuses = await Promise.all([
      statusOf('DELETE', `${path}/${id}`, shop.key),
      statusOf('DELETE', `${path}/${shop.appId}`, String(key)),
    ])
    assert.equal(statuses.filter(status => status === 204).length, 1, statuses.join())
  }
})

test('a charge in another currency is exchanged at the capture, and the trail names its line', async () => {
  const { id } = await payAt(api, shop, { currency: 'EUR', amount: 1_000n })
  await call('POST', `/transactions/${id}/captures`, { amount: 1_000, descriptor: 'Beans' })
  await call('POST', `/transactions/${id}/refunds`, { amount: 400 })
  const { transaction } = await call('GET', `/transactions/${id}`)
  assert.ok(transaction)
  const [captured, refunded] = transaction['trail'] as readonly Fields[]
  // 1000 euro cents are 7500 øre at the rate 7.5; the fee is 25 øre and 1.35 %.
  assert.deepEqual(
    [captured?.['amount'], captured?.['balance'], captured?.['fee'], captured?.['descriptor']],
    [1_000, 7_374, { flat: 25, rate: 101, total: 126 }, 'Beans'],
  )
  assert.deepEqual(
    [refunded?.['amount'], refunded?.['balance'], refunded?.['descriptor']],
    [400, -3_000, 'Coffee & Jane'],
  )
  for (const [entry, kind, fee] of [
    [captured, 'capture', 126],
    [refunded, 'refund', 0],
  ] as const) {
    const { line } = await call('GET', `/lines/${entry?.['lineId']}`)
    assert.ok(line)
    const { merchantId, transactionId, test: isTest, balance, amount } = line
    assert.deepEqual(
      { merchantId, transactionId, isTest, balance, amount, fee: line['fee'], [kind]: line[kind] },
      {
        merchantId: shop.merchantId,
        transactionId: id,
        isTest: true,
        balance: entry?.['balance'],
        amount: { amount: entry?.['amount'], currency: 'EUR' },
        fee,
        [kind]: true,
      },
    )
  }
})

test('the lines sum up to the balance, and a payout takes that sum', async () => {
  const { id } = await payAt(api, shop)
  await call('POST', `/transactions/${id}/captures`, { amount: 900 })
  const before = await list(`/merchants/${shop.merchantId}/lines`)
  const sum = (lines: readonly Fields[]) => lines.reduce((total, line) => total + Number(line['balance']), 0)
  assert.ok(sum(before) > 0)
  const paid = await payOutNow('lines', shop)
  assert.ok(paid.ok)
  const [payout, ...rest] = await list(`/merchants/${shop.merchantId}/lines`)
  assert.deepEqual(rest, before)
  assert.deepEqual(
    [payout?.id, payout?.['balance'], payout?.['transactionId'], payout?.['capture']],
    [paid.value.id, -sum(before), undefined, undefined],
  )
})

test('every change causes an event of its type', async () => {
  const uid = `every-event-${randomBytes(4).toString('hex')}`
  const merchant = `/merchants/${shop.merchantId}`
  await api.storage.transaction(tx =>
    tx.query('UPDATE merchants SET provision_uid = $2 WHERE id = $1', [shop.merchantId, uid]),
  )
  await call('PUT', merchant, { name: 'Jane' })
  const [fraud, changed] = [await payAt(api, shop, { number: '4100 0000 0400 1005' }), await payAt(api, shop)]
  await api.settle()
  await call('POST', `/transactions/${changed.id}/captures`, { amount: 800 })
  await call('POST', `/transactions/${changed.id}/refunds`, { amount: 100 })
  await call('POST', `/transactions/${changed.id}/voids`, { amount: 200 })
  await call('POST', `${merchant}/cards`, { transactionId: changed.id })
  await dispute(changed.id, 'won')
  await dispute(changed.id, 'lost')
  await call('POST', `/transactions/${fraud.id}/captures`, { amount: 1_000 })
  await payAt(api, shop)
  await payAt(api, shop, { amount: 900_000n }).then(({ id }) =>
    call('POST', `/transactions/${id}/captures`, { amount: 900_000 }),
  )
  assert.ok((await payOutNow('events', shop)).ok)
  api.clock.elapse(7 * 24 * 60 * 60 * 1000)
  while ((await expireAuthorisations(api.payments)) > 0);
  assert.ok((await transact(api.payments.storage, tx => closeProvisionedMerchant(tx, api.payments, uid))).ok)
  const told = new Set((await list(`${merchant}/events`)).map(({ type }) => type))
  assert.deepEqual([...told].sort(), [...eventTypes].sort())
})

test('the number of new apps is limited by address, and their creation can be disabled', async t => {
  const signUp = async (signUps: Pick<KeyedRateLimiter, 'take'> | null, from: readonly string[]) => {
    const server = createApiServer({
      payments: api.payments,
      clock: api.clock,
      log: silentLog,
      randomBytes,
      signUps,
      onAnswer: () => {},
      onReplay: () => {},
      ready: async () => true,
      guard: null,
      trustedProxies: [{ address: '127.0.0.0', prefix: 8 }],
    })
    const port = await server.listen({ host: '127.0.0.1', port: 0 })
    t.after(() => server.close(100))
    const answers: string[] = []
    for (const address of from) {
      const headers = { 'x-forwarded-for': address }
      const answer = await fetch(`http://127.0.0.1:${port}/apps`, { method: 'POST', headers })
      const { code = 'made' } = (await answer.json()) as { readonly code?: string }
      answers.push(`${answer.status} ${code} ${answer.headers.get('retry-after') ?? ''}`.trim())
    }
    return answers
  }
  const stopped = { nowMs: () => 0, monotonicMs: () => 0 }
  const from = ['203.0.113.1', '203.0.113.1', '203.0.113.1', '2001:db8::1', '2001:db8::2', '2001:db8::3']
  assert.deepEqual(await signUp(new KeyedRateLimiter(2, stopped), from), [
    '201 made',
    '201 made',
    '429 too_many_requests 30',
    '201 made',
    '201 made',
    '429 too_many_requests 30',
  ])
  assert.deepEqual(await signUp(null, ['203.0.113.1']), ['403 signup_closed'])
})

test('with PAYOUT_TIME each merchant with an account is paid once a day after that time', async () => {
  const read = readSettings(settings, { PAYOUT_TIME: '04:30' }, () => '')
  assert.ok('value' in read)
  const withAccount = { ...merchantInput, bank: { iban: 'DK5000400440116243' } }
  const [paid, without] = [await openShop(api, withAccount), await openShop(api)]
  for (const { key, id } of [
    { key: paid.key, id: (await payAt(api, paid)).id },
    { key: without.key, id: (await payAt(api, without)).id },
  ]) {
    for (const amount of [400, 300]) await call('POST', `/transactions/${id}/captures`, { amount }, key)
  }
  let nowMs = 0
  const payments = { ...api.payments, clock: { nowMs: () => nowMs, monotonicMs: () => nowMs } }
  const { tasks } = createTasks({
    settings: read.value,
    payments,
    log: silentLog,
    metrics: createMetrics(),
  })
  const payouts = async ({ merchantId, key }: TestShop) =>
    (await list(`/merchants/${merchantId}/lines`, key)).filter(line => line['transactionId'] === undefined)
      .length
  const table = [
    ['2031-03-04T04:29:59Z', 0],
    ['2031-03-04T04:30:00Z', 1],
    ['2031-03-04T23:59:59Z', 1],
    ['2031-03-05T00:00:00Z', 1],
    ['2031-03-05T04:29:00Z', 1],
    ['2031-03-05T12:00:00Z', 2],
  ] as const
  for (const [time, count] of table) {
    nowMs = Date.parse(time)
    if (count === 2) {
      const { id } = await payAt(api, paid)
      await call('POST', `/transactions/${id}/captures`, { amount: 500 }, paid.key)
    }
    await tasks['pay out merchants']()
    assert.deepEqual([await payouts(paid), await payouts(without)], [count, 0], time)
  }
})
