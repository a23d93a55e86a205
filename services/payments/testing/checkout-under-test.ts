import { randomBytes } from 'node:crypto'
import { systemClock } from '@tollway/chassis/clock.ts'
import { fastify } from 'fastify'
import { newId, newPublicKey } from '../domain/ids.ts'
import { exampleMerchantInput, type Merchant } from '../domain/merchant.ts'
import { AttemptLimit } from '../pages/attempt-limit.ts'
import type { Checkout, AttemptDetails as PaidRequest, PaymentOutcome } from '../pages/checkout.ts'
import { payPages } from '../pages/pay-pages.ts'
import { createTestProcessor } from '../processor/test-processor.ts'
import { createMemoryAnswers, createMemoryJournal } from './memory-stores.ts'

export function someMerchant(change: Partial<Merchant> = {}): Merchant {
  return {
    id: newId(Date.UTC(2026, 0, 1), randomBytes),
    key: newPublicKey(randomBytes),
    createdMs: Date.UTC(2026, 0, 1),
    ...exampleMerchantInput,
    name: 'Nordlys Lamps',
    website: 'https://nordlys.example',
    descriptor: 'NORDLYS',
    closedMs: null,
    ...change,
  }
}

/** A checkout whose functions tests can replace. */
type Replaceable = { -readonly [Name in keyof Checkout]: Checkout[Name] }

export interface CheckoutUnderTest extends Replaceable {
  readonly paid: readonly { readonly id: string; readonly request: PaidRequest }[]
  /** Awaited before each answer, so that a test can delay or fail it. */
  meet: () => Promise<void>
}

const acceptedCurrencies = ['DKK', 'EUR', 'JPY', 'KWD', 'SEK', 'USD']

/** Uses the test processor, in memory. Makes one authorisation for each idempotency key. */
export function checkoutUnderTest(merchants: readonly Merchant[]): CheckoutUnderTest {
  const processor = createTestProcessor({
    key: new Uint8Array(32).fill(7),
    journal: createMemoryJournal(),
    answers: createMemoryAnswers(),
    eventDelayMs: 1_000,
    now: () => Date.now(),
  })
  const paid: { id: string; request: PaidRequest }[] = []
  const byKey = new Map<string, Extract<PaymentOutcome, { kind: 'approved' | 'declined' }>>()
  const begun = new Set<string>()
  const running = new Set<string>()

  async function authorise(request: PaidRequest & { authentication: string }): Promise<PaymentOutcome> {
    const { amount, currency, merchant, idempotencyKey, authentication, reference } = request
    const answer = await processor.authorise({
      operationId: idempotencyKey,
      amount,
      currency,
      descriptor: merchant.descriptor,
      source: { authentication },
    })
    if (!answer.approved) return { kind: 'declined', error: answer.error }
    const transactionId = newId(Date.now(), randomBytes)
    paid.push({ id: transactionId, request: { merchant, amount, currency, reference, idempotencyKey } })
    return { kind: 'approved', transactionId }
  }

  const checkout: CheckoutUnderTest = {
    paid,
    meet: async () => {},
    findMerchant: async key => merchants.find(merchant => merchant.key === key),
    takesPayments: ({ test }) => test,
    acceptsCurrency: (_, currency) => acceptedCurrencies.includes(currency),
    async authenticate({ amount, currency, card }) {
      const asked = await processor.authenticate({ amount, currency, card })
      if (asked.result === 'declined') return { kind: 'declined', error: asked.error }
      return { kind: asked.result, authentication: asked.authentication }
    },
    async answerChallenge({ authentication, confirmed }) {
      const answer = await processor.answerChallenge(authentication, confirmed)
      if (answer.result === 'failed') return { kind: 'declined', error: answer.error }
      return { kind: 'ready', authentication: answer.authentication }
    },
    async find({ idempotencyKey: key }) {
      if (running.has(key)) return { kind: 'in-progress', retryAfterMs: 10 }
      return byKey.get(key) ?? { kind: begun.has(key) ? 'resumable' : 'none' }
    },
    async pay(request) {
      const { idempotencyKey: key } = request
      const known = byKey.get(key)
      if (known !== undefined) return known
      if (running.has(key)) return { kind: 'in-progress', retryAfterMs: 10 }
      running.add(key)
      begun.add(key)
      try {
        await checkout.meet()
        const outcome = await authorise(request)
        if (outcome.kind === 'approved' || outcome.kind === 'declined') byKey.set(key, outcome)
        return outcome
      } finally {
        running.delete(key)
      }
    },
  }
  return checkout
}

export type AttemptsPerMinute = ConstructorParameters<typeof AttemptLimit>[0]

export const pageSecret = new Uint8Array(32).fill(9)

/** Serves the pages at `/pay`, as the service does. `errors` has what `onError` received. */
export function pagesUnderTest(
  checkout: Checkout,
  attemptsPerMinute: AttemptsPerMinute = { perAddress: 1_000, perMerchant: 1_000 },
) {
  const errors: unknown[] = []
  const clock = {
    aheadMs: 0,
    nowMs: () => Date.now() + clock.aheadMs,
    monotonicMs: () => systemClock.monotonicMs() + clock.aheadMs,
  }
  const app = fastify({ trustProxy: true })
  app.register(
    payPages({
      checkout,
      attempts: new AttemptLimit(attemptsPerMinute, clock),
      clock,
      randomBytes,
      secrets: () => [pageSecret],
      settleTimeoutMs: 300,
      onError: error => errors.push(error),
    }),
    { prefix: '/pay' },
  )
  return { app, errors, clock }
}
