import { exampleMerchantInput } from '../../domain/merchant.ts'

/** The examples of the OpenAPI document. Tests validate them with the schemas. */
export const exampleIds = {
  app: '0197f3a2-5c00-7a10-8b3c-5d2e9f014a01',
  merchant: '0197f3a2-5c00-7a10-8b3c-5d2e9f014a02',
  merchantKey: '4b8e2c57-93d1-4f06-a7b9-0e1d2c3f4a03',
  user: '0197f3a2-5c00-7a10-8b3c-5d2e9f014a04',
  transaction: '0197f3a2-5c00-7a10-8b3c-5d2e9f014a05',
  earlier: '0197f3a2-5c00-7a10-8b3c-5d2e9f014a06',
  card: '0197f3a2-5c00-7a10-8b3c-5d2e9f014a07',
  line: '0197f3a2-5c00-7a10-8b3c-5d2e9f014a08',
  fraud: '0197f3a2-5c00-8a10-8b3c-5d2e9f014a09',
  dispute: '0197f3a2-5c00-8a10-8b3c-5d2e9f014a0a',
  webhook: '0197f3a2-5c00-7a10-8b3c-5d2e9f014a0b',
  event: '0197f3a2-5c00-7a10-8b3c-5d2e9f014a0c',
  trailEntry: '0197f3a2-5c00-7a10-8b3c-5d2e9f014a0d',
} as const

const created = '2026-07-10T08:30:00.000Z'

export const appExample = { id: exampleIds.app, name: 'Coffee shop' }
export const newAppExample = {
  ...appExample,
  key: 'tollway_c2VjcmV0LW9mLTMyLXJhbmRvbS1ieXRlcy1oZXJlLi4',
}

export const merchantExample = {
  id: exampleIds.merchant,
  key: exampleIds.merchantKey,
  created,
  ...exampleMerchantInput,
  closed: null,
}

export const userExample = { id: exampleIds.user, email: 'joe@example.com', created }

const exampleCardDetails = {
  bin: '410000',
  last4: '0001',
  expiry: '2030-12-31T23:59:59.999Z',
  scheme: 'visa',
}

export const cardExample = {
  id: exampleIds.card,
  merchantId: exampleIds.merchant,
  created,
  ...exampleCardDetails,
  notes: 'Subscription of Jane',
}

export const trailEntryExample = {
  id: exampleIds.trailEntry,
  kind: 'capture',
  capture: true,
  created: '2026-07-10T09:00:00.000Z',
  amount: 10_000,
  balance: 9_840,
  fee: { flat: 25, rate: 135, total: 160 },
  descriptor: 'Coffee & Jane',
  lineId: exampleIds.line,
}

export const transactionExample = {
  id: exampleIds.transaction,
  merchantId: exampleIds.merchant,
  test: true,
  created,
  currency: 'DKK',
  amount: 12_500,
  descriptor: 'Coffee & Jane',
  pendingAmount: 2_500,
  capturedAmount: 10_000,
  refundedAmount: 0,
  voidedAmount: 0,
  disputedAmount: 0,
  card: exampleCardDetails,
  custom: { order: 'A-17' },
  recurring: true,
  successful: true,
  error: false,
  trail: [trailEntryExample],
  trailLength: 1,
}

export const lineExample = {
  id: exampleIds.line,
  merchantId: exampleIds.merchant,
  test: true,
  created: '2026-07-10T09:00:00.000Z',
  balance: 9_840,
  fee: 160,
  kind: 'capture',
  description: 'Capture',
  amount: { amount: 10_000, currency: 'DKK' },
  transactionId: exampleIds.transaction,
  capture: true,
}

export const balanceExample = {
  available: { currency: 'DKK', amount: 9_840 },
  pending: [{ currency: 'DKK', amount: 2_500 }],
}

export const fraudExample = {
  id: exampleIds.fraud,
  merchantId: exampleIds.merchant,
  transactionId: exampleIds.transaction,
  created,
  reported: created,
  reason: 1,
}

export const disputeExample = {
  id: exampleIds.dispute,
  merchantId: exampleIds.merchant,
  transactionId: exampleIds.transaction,
  created,
  amount: 10_000,
  currency: 'DKK',
  status: 'open',
  reason: 'fraudulent',
  due: '2026-07-24T08:30:00.000Z',
  resolved: null,
}

export const webhookExample = {
  id: exampleIds.webhook,
  merchantId: exampleIds.merchant,
  created,
  url: 'https://example.com/payments',
  events: ['transaction.captured', 'transaction.refunded'],
  disabled: null,
}

/** An example of a valid webhook secret. Nobody may use this secret, because it is public. */
export const webhookSecretExample = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'

export const eventExample = {
  id: exampleIds.event,
  type: 'dispute.raised',
  created,
  merchantId: exampleIds.merchant,
  data: { dispute: disputeExample },
}
