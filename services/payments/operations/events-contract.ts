import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { type ApiUnderTest, openShop, payAt, sharedApi, type TestShop } from '../http/api-under-test.ts'
import type { CardProcessor, FollowUpRequest } from '../processor/processor.ts'
import { findLedgerProblems } from '../storage/ledger.ts'
import { expireAuthorisations } from './expire-authorisations.ts'
import { instructProcessor } from './instruct-processor.ts'
import type { Payments } from './operation.ts'
import { recordEvents } from './record-events.ts'

let api: ApiUnderTest
let shop: TestShop
before(async () => {
  api = await sharedApi()
  shop = await openShop(api)
})

interface PresentedTransaction {
  readonly pendingAmount: number
  readonly voidedAmount: number
  readonly disputedAmount: number
  readonly trail: readonly Record<string, unknown>[]
}

async function read(id: string): Promise<PresentedTransaction> {
  const { json } = await api.call('GET', `/transactions/${id}`, shop)
  return (json as { transaction: PresentedTransaction }).transaction
}

async function listed(path: string): Promise<readonly Record<string, unknown>[]> {
  const filter = `filter[merchantId]=${shop.merchantId}`
  return (await api.call('GET', `${path}?limit=100&${filter}`, shop)).json as Record<string, unknown>[]
}

const capture = (id: string, amount: number) =>
  api.call('POST', `/transactions/${id}/captures`, { key: shop.key, json: { amount } })

test('frauds and disputes are recorded once, however often and by whom they are told', async () => {
  const fraud = await payAt(api, shop, { number: '4100 0000 0400 1005' })
  const won = await payAt(api, shop, { number: '4100 0000 0400 3001' })
  const lost = await payAt(api, shop, { number: '4100 0000 0400 4009' })
  await capture(won.id, 400)
  await capture(lost.id, 300)
  await instructProcessor(api.payments)
  const { test: processor } = api.payments.processors
  const forgetful: CardProcessor = { ...processor, acknowledge: async () => {} }
  for (const told of [forgetful, forgetful, processor, processor]) {
    await Promise.all([recordEvents(api.payments, told, true), recordEvents(api.payments, forgetful, true)])
  }
  const frauds = await listed('/frauds')
  assert.deepEqual(
    frauds.map(({ transactionId, reason }) => [transactionId, reason]),
    [[fraud.id, 1]],
  )
  const disputes = new Map((await listed('/disputes')).map(one => [one['transactionId'], one]))
  assert.deepEqual(
    [disputes.size, disputes.get(won.id)?.['status'], disputes.get(lost.id)?.['status']],
    [2, 'won', 'lost'],
  )
  assert.deepEqual([(await read(won.id)).disputedAmount, (await read(lost.id)).disputedAmount], [0, 300])
  assert.equal((await read(won.id)).trail.length, 2)
  const problems = await api.storage.transaction(tx => findLedgerProblems(tx, 10), {
    isolation: 'repeatable read',
  })
  assert.deepEqual(problems, [])
})

test('an event whose cause is not known waits, and is given up after an hour', async () => {
  const pulled = [
    { kind: 'fraud', id: 'fraud_1', reference: 'test_nobody', occurredMs: api.clock.nowMs(), reason: null },
  ] as const
  const acknowledged: string[] = []
  const processor: CardProcessor = {
    ...api.payments.processors.test,
    pullEvents: async () => pulled,
    acknowledge: async ids => void acknowledged.push(...ids),
  }
  assert.equal((await recordEvents(api.payments, processor, true))[0]?.outcome, 'waiting')
  assert.deepEqual(acknowledged, [])
  api.clock.elapse(60 * 60 * 1000)
  assert.equal((await recordEvents(api.payments, processor, true))[0]?.outcome, 'unknown')
  assert.deepEqual(acknowledged, ['fraud_1'])
})

test('what is pending becomes void when its time is over', async () => {
  const { id } = await payAt(api, shop)
  await capture(id, 400)
  api.clock.elapse(7 * 24 * 60 * 60 * 1000)
  const late = await capture(id, 1)
  assert.deepEqual((late.json as { code: string }[])[0]?.code, 'expired')
  while ((await expireAuthorisations(api.payments)) > 0);
  const { pendingAmount, voidedAmount, trail } = await read(id)
  assert.deepEqual([pendingAmount, voidedAmount, trail.length], [0, 600, 2])
  assert.deepEqual([trail[1]?.['void'], trail[1]?.['amount']], [true, 600])
})

test('the processor is told of each change once it takes it, in the order of the trail', async () => {
  while ((await instructProcessor(api.payments)).due > 0);
  const { id } = await payAt(api, shop)
  const told: string[] = []
  let away = true
  const tell = (kind: string) => async (request: FollowUpRequest) => {
    if (away) throw new Error('the processor is away')
    told.push(`${kind} ${request.amount} ${request.operationId}`)
  }
  const processor = { ...api.payments.processors.test, capture: tell('capture'), refund: tell('refund') }
  const payments: Payments = { ...api.payments, processors: { test: processor, live: null } }
  await capture(id, 500)
  await api.call('POST', `/transactions/${id}/refunds`, { key: shop.key, json: { amount: 200 } })
  const first = await instructProcessor(payments)
  assert.deepEqual(
    first.failures.map(({ kind, attempts, reason }) => [kind, attempts, reason]),
    [['capture', 1, 'the processor is away']],
  )
  assert.equal((await instructProcessor(payments)).due, 0)
  away = false
  api.clock.elapse(1_000)
  while ((await instructProcessor(payments)).due > 0);
  assert.deepEqual(
    told.map(line => line.split(' ').slice(0, 2).join(' ')),
    ['capture 500', 'refund 200'],
  )
})
