import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import fc from 'fast-check'
import { payOutMerchant } from '../../operations/background/pay-out.ts'
import { raiseDisputeByHand } from '../../operations/transactions/disputes.ts'
import { transact } from '../../storage/storage.ts'
import {
  type ApiUnderTest,
  merchantInput,
  openShop,
  payAt,
  sharedApi,
  type TestShop,
} from './api-under-test.ts'

interface Money {
  readonly currency: string
  readonly amount: number
}

interface Balance {
  readonly available: Money
  readonly pending: readonly Money[]
}

let api: ApiUnderTest
before(async () => {
  api = await sharedApi()
})

async function get<T>(shop: TestShop, path: string): Promise<T> {
  const { status, text, json } = await api.call('GET', `/merchants/${shop.merchantId}/${path}`, shop)
  assert.equal(status, 200, text)
  return json as T
}

const balanceOf = async (shop: TestShop) => (await get<{ balance: Balance }>(shop, 'balance')).balance

interface Payment {
  readonly id: string
  readonly currency: string
  readonly pendingAmount: number
}

/** Resolves with the balance that follows from the listed lines and transactions. */
async function sumOf(shop: TestShop): Promise<Balance> {
  const lines = await get<readonly { balance: number }[]>(shop, 'lines?limit=100')
  const payments = await get<readonly Payment[]>(shop, 'transactions?limit=100')
  const pending = new Map<string, number>()
  for (const { currency, pendingAmount } of payments) {
    if (pendingAmount > 0) pending.set(currency, (pending.get(currency) ?? 0) + pendingAmount)
  }
  return {
    available: { currency: 'DKK', amount: lines.reduce((sum, { balance }) => sum + balance, 0) },
    pending: [...pending].toSorted().map(([currency, amount]) => ({ currency, amount })),
  }
}

const step = fc.record({
  act: fc.constantFrom('pay', 'captures', 'refunds', 'voids', 'dispute', 'payout'),
  amount: fc.integer({ min: 1, max: 2_000 }),
  currency: fc.constantFrom('DKK', 'EUR', 'JPY'),
  which: fc.nat(5),
})

test('the balance is the sum of the lines and of the pending amounts, after any history', async () => {
  const property = fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 14 }), async steps => {
    const shop = await openShop(api, { ...merchantInput, bank: { iban: 'DK5000400440116243' } })
    const ids: string[] = [(await payAt(api, shop, { amount: 1_000n, currency: 'EUR' })).id]
    for (const [index, { act, amount, currency, which }] of steps.entries()) {
      const id = ids[which % ids.length] ?? ''
      if (act === 'pay') ids.push((await payAt(api, shop, { amount: BigInt(amount), currency })).id)
      else if (act === 'dispute') {
        const dispute = { transactionId: id, amount: BigInt(amount), reason: null, dueMs: null }
        await transact(api.payments.storage, tx => raiseDisputeByHand(tx, api.payments, dispute))
      } else if (act === 'payout') {
        const payout = { merchantId: shop.merchantId, period: `${index}` }
        await transact(api.payments.storage, tx => payOutMerchant(tx, api.payments, payout))
      } else await api.call('POST', `/transactions/${id}/${act}`, { key: shop.key, json: { amount } })
      assert.deepEqual(await balanceOf(shop), await sumOf(shop), act)
    }
  })
  await fc.assert(property, { numRuns: Number(process.env['FC_RUNS'] ?? 8) })
})

test('a new merchant has balance 0, and a debt is a negative balance', async () => {
  const shop = await openShop(api)
  assert.deepEqual(await balanceOf(shop), { available: { currency: 'DKK', amount: 0 }, pending: [] })
  const { id: transactionId } = await payAt(api, shop, { amount: 1_000n })
  await api.call('POST', `/transactions/${transactionId}/captures`, {
    key: shop.key,
    json: { amount: 1_000 },
  })
  const dispute = { transactionId, amount: 1_000n, reason: null, dueMs: null }
  const raised = await transact(api.payments.storage, tx => raiseDisputeByHand(tx, api.payments, dispute))
  assert.ok(raised.ok)
  const { available } = await balanceOf(shop)
  assert.ok(available.amount < 0, `${available.amount}`)
})

test('the balance of another app’s merchant is not found', async () => {
  const [shop, stranger] = [await openShop(api), await openShop(api)]
  const { status } = await api.call('GET', `/merchants/${shop.merchantId}/balance`, { key: stranger.key })
  assert.equal(status, 404)
})
