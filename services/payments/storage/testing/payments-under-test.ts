import { randomBytes } from 'node:crypto'
import { newId, newPublicKey } from '../../domain/ids.ts'
import { type App, exampleMerchantInput, type Merchant } from '../../domain/merchant.ts'
import type { FeeTable } from '../../domain/money/fees.ts'
import type { OperationContext } from '../../domain/transaction/change.ts'
import { noTrail } from '../../domain/transaction/trail.ts'
import type { Transaction } from '../../domain/transaction/transaction.ts'
import type { Storage } from '../storage.ts'
import { insertApp } from '../tables/apps.ts'
import { addMerchantApp } from '../tables/memberships.ts'
import { insertMerchant } from '../tables/merchants.ts'

export const nowMs = Date.UTC(2026, 1, 3, 4, 5, 6, 789)

export function someId(): string {
  return newId(nowMs, randomBytes)
}

export function someApp(): App {
  return { id: someId(), name: 'till', createdMs: nowMs }
}

export function someMerchant(): Merchant {
  return {
    id: someId(),
    key: newPublicKey(randomBytes),
    createdMs: nowMs,
    ...exampleMerchantInput,
    descriptor: 'SHOP',
    closedMs: null,
  }
}

export function someTransaction(merchant: Merchant, amount = 1_000n): Transaction {
  return {
    id: someId(),
    merchantId: merchant.id,
    test: merchant.test,
    createdMs: nowMs,
    currency: 'EUR',
    amount,
    descriptor: 'SHOP',
    pendingAmount: amount,
    capturedAmount: 0n,
    refundedAmount: 0n,
    voidedAmount: 0n,
    disputedAmount: 0n,
    excessDisputedAmount: 0n,
    refundableValue: 0n,
    refundableRest: 0n,
    card: { bin: '410000', last4: '0000', expiry: { year: 2030, month: 12 }, scheme: 'visa' },
    cardReference: { token: 'tok_1', fingerprint: 'fp_1' },
    custom: { order: { b: 1, a: [null, 'ø'] } },
    reference: null,
    tds: 'full',
    recurring: false,
    error: null,
    expiresMs: nowMs + 7 * 86_400_000,
    processorReference: `auth_${someId()}`,
    trail: [],
    totals: noTrail,
  }
}

const quarter = { flat: 25n, rate: { numerator: 135n, denominator: 10_000n } }
const fees: FeeTable = new Map([['DKK', { capture: quarter, dispute: { ...quarter, flat: 100n } }]])
const rates = new Map([
  ['EUR', { numerator: 1n, denominator: 1n }],
  ['DKK', { numerator: 74_604n, denominator: 10_000n }],
])

export function contextOf(merchant: Merchant): OperationContext {
  const trailLimits = { captures: 1_000, refunds: 1_000, voids: 1_000 }
  return { merchant, pricing: { fees, rates: { base: 'EUR', rates } }, trailLimits, nowMs, nextId: someId }
}

export async function openMerchant(
  storage: Storage,
): Promise<{ readonly merchant: Merchant; readonly app: App }> {
  const merchant = someMerchant()
  const app = someApp()
  await storage.transaction(async tx => {
    await insertApp(tx, app)
    await insertMerchant(tx, merchant)
    await addMerchantApp(tx, merchant.id, app.id)
  })
  return { merchant, app }
}
