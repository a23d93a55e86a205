import type { JsonObject } from '@tollway/chassis/json.ts'
import { cardSchemes } from '../../domain/card.ts'
import { custom } from '../../domain/input/custom.ts'
import * as fields from '../../domain/input/fields.ts'
import { orNull } from '../../domain/input/record.ts'
import { bodySchemas } from '../../domain/input/request-bodies.ts'
import { lineKinds } from '../../domain/ledger/ledger.ts'
import { maxNameCharacters, merchantFields } from '../../domain/merchant.ts'
import { maxShownTrail } from '../../domain/present.ts'
import { fieldErrorCodes, rejections } from '../../domain/rejections.ts'
import { disputeStatuses } from '../../domain/transaction/dispute.ts'
import { processingErrorCodes } from '../../domain/transaction/processing-errors.ts'
import { trailKinds } from '../../domain/transaction/trail.ts'
import { tdsResults } from '../../domain/transaction/transaction.ts'
import { webhookSchemas } from '../../operations/accounts/webhooks.ts'
import { eventTypes } from '../../operations/events.ts'
import type { Example } from '../endpoint.ts'

/** This file has the JSON Schemas (2020-12) of requests and answers in the OpenAPI document. */
const date = { type: 'string', format: 'date-time' }
const flag = { type: 'boolean' }
const text = { type: 'string' }
const name = { type: 'string', minLength: 1, maxLength: maxNameCharacters }
const { schema: id } = fields.id
const { schema: currency } = fields.currency
const { schema: email } = fields.email
const { schema: website } = fields.webAddress
const minorUnits = { type: 'integer', description: 'The amount in minor units' }
const money = object({ currency, amount: minorUnits })

/** Returns the schema of an object with only these fields. A field is optional if its name ends with `?`. */
function object(properties: Readonly<Record<string, JsonObject>>): JsonObject {
  const names = Object.keys(properties)
  return {
    type: 'object',
    additionalProperties: false,
    required: names.filter(field => !field.endsWith('?')),
    properties: Object.fromEntries(names.map(field => [field.replace(/\?$/, ''), properties[field] ?? {}])),
  }
}

export function ref(schema: string): JsonObject {
  return { $ref: `#/components/schemas/${schema}` }
}

/** Returns an answer with a record in a single field, such as `{transaction: {…}}`. */
export function answerWith(field: string, { schema, example }: Example): Example {
  return { schema: object({ [field]: schema }), example: { [field]: example } }
}

const card = {
  bin: { type: 'string', pattern: '^[0-9]{6}$', description: 'The first 6 digits of the card number' },
  last4: { type: 'string', pattern: '^[0-9]{4}$' },
  expiry: date,
  scheme: { enum: cardSchemes },
}

const webhook = {
  id,
  merchantId: id,
  created: date,
  url: website,
  events: { type: 'array', items: text },
  disabled: orNull(date),
}

const inputs = { ...bodySchemas, ...webhookSchemas }

const dispute = object({ id, 'won?': { const: true }, 'lost?': { const: true } })
const fee = object({ flat: minorUnits, rate: minorUnits, total: minorUnits })

const records = {
  App: object({ id, name: orNull(name) }),
  NewApp: object({
    id,
    name: orNull(name),
    key: { ...text, description: 'The API key, which is not shown again' },
  }),
  Merchant: object({
    id,
    key: {
      ...id,
      description: 'The public key, which identifies the merchant in links, and grants no access',
    },
    created: date,
    ...Object.fromEntries(
      Object.entries(merchantFields).map(([field, { answerSchema }]) => [field, answerSchema]),
    ),
    closed: orNull(date),
  }),
  User: object({ id, email, created: date }),
  Card: object({ id, merchantId: id, created: date, ...card, notes: orNull(text) }),
  Fee: fee,
  TrailEntry: {
    ...object({
      id,
      kind: { enum: trailKinds },
      'capture?': { const: true },
      'refund?': { const: true },
      'void?': { const: true },
      'dispute?': dispute,
      created: date,
      amount: { ...minorUnits, description: 'The amount in the currency of the transaction' },
      balance: {
        ...minorUnits,
        description: 'The change of the merchant’s balance, in the currency of the balance',
      },
      fee: ref('Fee'),
      descriptor: text,
      'lineId?': id,
    }),
    oneOf: ['capture', 'refund', 'void', 'dispute'].map(kind => ({ required: [kind] })),
  },
  Transaction: object({
    id,
    merchantId: id,
    test: flag,
    created: date,
    currency,
    amount: minorUnits,
    descriptor: text,
    pendingAmount: { ...minorUnits, description: 'The amount that can be captured or voided' },
    capturedAmount: { ...minorUnits, description: 'The captured amount, including refunded amounts' },
    refundedAmount: minorUnits,
    voidedAmount: minorUnits,
    disputedAmount: { ...minorUnits, description: 'The amount in open and lost disputes' },
    card: object(card),
    'custom?': custom.schema,
    'reference?': text,
    'tds?': { enum: tdsResults, description: 'The result of 3-D Secure' },
    recurring: flag,
    successful: flag,
    error: { anyOf: [{ const: false }, ref('ProcessingError')] },
    trail: {
      type: 'array',
      items: ref('TrailEntry'),
      maxItems: maxShownTrail,
      description: 'The newest entries of the trail, oldest first. /transactions/{id}/trail has all entries',
    },
    trailLength: { type: 'integer', description: 'The number of entries of the whole trail' },
  }),
  Line: object({
    id,
    merchantId: id,
    test: flag,
    created: date,
    balance: {
      ...minorUnits,
      description: 'The change of the merchant’s balance, in the currency of the balance',
    },
    fee: minorUnits,
    kind: { enum: lineKinds },
    description: text,
    amount: object({ amount: minorUnits, currency }),
    'transactionId?': id,
    'capture?': { const: true },
    'refund?': { const: true },
  }),
  Fraud: object({
    id,
    merchantId: id,
    transactionId: id,
    created: date,
    'reported?': date,
    'reason?': { type: 'integer', minimum: 0, maximum: 8 },
  }),
  Balance: object({
    available: {
      ...money,
      description: 'The sum of the lines, in the funding currency, which can be negative',
    },
    pending: {
      type: 'array',
      items: money,
      description: 'The authorised amounts that are neither captured nor voided',
    },
  }),
  Dispute: object({
    id,
    merchantId: id,
    transactionId: id,
    created: date,
    amount: minorUnits,
    currency,
    'excess?': { ...minorUnits, description: 'The part of the amount above the refundable amount' },
    status: { enum: disputeStatuses },
    reason: orNull(text),
    due: orNull(date),
    resolved: orNull(date),
  }),
  Webhook: object({ ...webhook, 'waiting?': object({ events: { type: 'integer' }, error: orNull(text) }) }),
  NewWebhook: object({
    ...webhook,
    secret: { ...text, description: 'The key that verifies signatures, which is not shown again' },
  }),
  Event: object({
    id,
    type: { enum: eventTypes },
    created: date,
    merchantId: id,
    data: {
      type: 'object',
      description:
        'The record at the time of the event, and the change of its trail: {transaction: {…}, change: {…}}',
    },
  }),
} satisfies Readonly<Record<string, JsonObject>>

const errors = {
  ProcessingError: object({
    code: { enum: processingErrorCodes },
    message: text,
    client: { ...text, description: 'The text for the payer' },
    merchant: { ...text, description: 'The text for the merchant' },
    retry: { ...flag, description: 'Whether the same payment can succeed later' },
  }),
  FieldErrors: {
    type: 'array',
    minItems: 1,
    items: object({ field: text, code: { enum: fieldErrorCodes }, message: text }),
  },
  Error: object({
    code: { enum: Object.keys(rejections) },
    message: text,
    'error?': ref('ProcessingError'),
    'requestId?': text,
  }),
} satisfies Readonly<Record<string, JsonObject>>

export const schemas = { ...inputs, ...records, ...errors } satisfies Readonly<Record<string, JsonObject>>
