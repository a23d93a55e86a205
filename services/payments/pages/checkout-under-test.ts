import { randomBytes } from 'node:crypto'
import { systemClock } from '@tollway/chassis/clock.ts'
import { fastify } from 'fastify'
import { newId, newPublicKey } from '../domain/ids.ts'
import type { Merchant } from '../domain/merchant.ts'
import { createMemoryJournal } from '../processor/event-journal.ts'
import { createTestProcessor } from '../processor/test-processor.ts'
import { type AttemptsPerMinute, createAttemptLimit } from './attempt-limit.ts'
import type { Checkout, PaymentOutcome, PaymentRequest } from './checkout.ts'
import { payPages } from './pay-pages.ts'

export function someMerchant(change: Partial<Merchant> = {}): Merchant {
  return {
    id: newId(Date.UTC(2026, 0, 1), randomBytes),
    key: newPublicKey(randomBytes),
    createdMs: Date.UTC(2026, 0, 1),
    name: 'Nordlys Lamps',
    currency: 'DKK',
    test: true,
    email: 'shop@example.org',
    website: 'https://nordlys.example',
    descriptor: 'NORDLYS',
    company: { country: 'DK', number: null },
    bank: null,
    closedMs: null,
    ...change,
  }
}

export interface CheckoutUnderTest extends Checkout {
  /** What was authorised, in order. */
  readonly paid: readonly { readonly id: string; readonly request: Omit<PaymentRequest, 'card'> }[]
  /** Runs before each answer. */
  meet: () => Promise<void>
}

const acceptedCurrencies = ['DKK', 'EUR', 'JPY', 'KWD', 'SEK', 'USD']

/** The pages' contract over the test processor, in memory: one authorisation a key. */
export function checkoutUnderTest(merchants: readonly Merchant[]): CheckoutUnderTest {
  const processor = createTestProcessor({
    key: new Uint8Array(32).fill(7),
    journal: createMemoryJournal(),
    now: () => Date.now(),
  })
  const paid: { id: string; request: Omit<PaymentRequest, 'card'> }[] = []
  const byKey = new Map<string, PaymentOutcome>()
  const running = new Set<string>()

  async function decide({ card, ...request }: PaymentRequest): Promise<PaymentOutcome> {
    const { amount, currency, challengeAnswer, merchant, idempotencyKey } = request
    const asked =
      challengeAnswer === null
        ? await processor.authenticate({ amount, currency, card })
        : await processor.answerChallenge(challengeAnswer.challenge, challengeAnswer.confirmed)
    if (asked.result === 'challenge') return { kind: 'challenge', challenge: asked.challenge }
    if ('error' in asked) return { kind: 'declined', error: asked.error }
    const tdsProof = 'proof' in asked ? asked.proof : null
    const answer = await processor.authorise({
      operationId: idempotencyKey,
      amount,
      currency,
      descriptor: merchant.descriptor,
      source: { card, tdsProof },
    })
    if (!answer.approved) return { kind: 'declined', error: answer.error }
    const transactionId = newId(Date.now(), randomBytes)
    paid.push({ id: transactionId, request })
    return { kind: 'approved', transactionId }
  }

  const checkout: CheckoutUnderTest = {
    paid,
    meet: async () => {},
    findMerchant: async key => merchants.find(merchant => merchant.key === key),
    acceptsCurrency: (_, currency) => acceptedCurrencies.includes(currency),
    async pay(request) {
      const { idempotencyKey: key } = request
      const known = byKey.get(key)
      if (known !== undefined) return known
      if (running.has(key)) return { kind: 'in-progress', retryAfterMs: 10 }
      running.add(key)
      try {
        await checkout.meet()
        const outcome = await decide(request)
        if (outcome.kind !== 'challenge') byKey.set(key, outcome)
        return outcome
      } finally {
        running.delete(key)
      }
    },
  }
  return checkout
}

/** The pages under /pay, as the service mounts them. `errors` are those that were told. */
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
      attempts: createAttemptLimit(attemptsPerMinute, clock),
      clock,
      randomBytes,
      secret: new Uint8Array(32).fill(9),
      patienceMs: 300,
      onError: error => errors.push(error),
    }),
    { prefix: '/pay' },
  )
  return { app, errors, clock }
}
