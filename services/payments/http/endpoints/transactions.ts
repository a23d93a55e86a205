import { isObject } from '@tollway/chassis/is-object.ts'
import { exportCsv, transactionColumns } from '../../domain/export.ts'
import { type Encoding, record } from '../../domain/input/record.ts'
import {
  parseCapture,
  parseCard,
  parseRefund,
  parseTransaction,
  parseVoid,
  type SaveCardInput,
  type TransactionInput,
} from '../../domain/input/request-bodies.ts'
import { transactionSearch } from '../../domain/input/search.ts'
import { presentCard, presentTrailEntry, presentTransaction } from '../../domain/present.ts'
import { mapResult, type Result, rejectProcessing } from '../../domain/rejections.ts'
import type { Transaction } from '../../domain/transaction/transaction.ts'
import { ownCard, ownTransaction } from '../../operations/accounts/access.ts'
import { exportOwnTransactions, listOwnTrail, listOwnTransactions } from '../../operations/lists.ts'
import type { Payments } from '../../operations/operation.ts'
import {
  type ChangeRequest,
  captureOwnTransaction,
  refundOwnTransaction,
  voidOwnTransaction,
} from '../../operations/transactions/change-transaction.ts'
import { createTransaction } from '../../operations/transactions/create-transaction.ts'
import { saveCard } from '../../operations/transactions/save-card.ts'
import type { Tx } from '../../storage/storage.ts'
import { answerRejection, type HttpAnswer, jsonAnswer } from '../answer.ts'
import type { AppEndpoint, EndpointCall, Example, PaymentsEndpoint, ProcessorEndpoint } from '../endpoint.ts'
import { exportEndpoint, listEndpoint, readEndpoint } from '../get-endpoints.ts'
import { cardExample, exampleIds, trailEntryExample, transactionExample } from '../openapi/examples.ts'
import { answerWith, ref } from '../openapi/schemas.ts'

const tag = 'Transactions'
const item: Example = { schema: ref('Transaction'), example: transactionExample }
const transaction = answerWith('transaction', item)

const create: ProcessorEndpoint<TransactionInput> = {
  kind: 'processor',
  method: 'POST',
  path: '/merchants/{merchantId}/transactions',
  document: {
    operationId: 'createTransaction',
    tag,
    summary: 'Charge the card of an earlier transaction, or a saved card',
    description:
      'The payer does not take part, so there is no 3-D Secure. A declined transaction is recorded too.',
    body: {
      schema: ref('TransactionInput'),
      example: { transactionId: exampleIds.earlier, currency: 'DKK', amount: 12_500 },
      required: true,
    },
    answers: {
      201: answerWith('transaction', {
        schema: {
          type: 'object',
          required: ['id'],
          properties: { id: { type: 'string', format: 'uuid' } },
        },
        example: { id: exampleIds.transaction },
      }),
    },
    declines: true,
  },
  parse: parseCreation,
  async act({ payments, app, param, input }, once) {
    const merchantId = param('merchantId')
    return createTransaction(payments, { app, merchantId, input, once, present: presentCreation })
  },
}

/** Parses the body. Ignores `cardId: false`, which the public client sends with every transactionId. */
function parseCreation({ body, encoding }: EndpointCall): Result<TransactionInput> {
  if (!isObject(body) || body['cardId'] !== false) return parseTransaction(body, encoding)
  const { cardId, ...rest } = body
  return parseTransaction(rest, encoding)
}

function presentCreation({ id, error }: Transaction): HttpAnswer {
  return error === null ? jsonAnswer(201, { transaction: { id } }) : answerRejection(rejectProcessing(error))
}

const list = listEndpoint({
  path: '/merchants/{merchantId}/transactions',
  operationId: 'listTransactions',
  tag,
  summary: 'List the transactions of a merchant',
  filter: transactionSearch,
  item,
  list: listOwnTransactions,
  present: transaction => presentTransaction(transaction),
})

const exported = exportEndpoint({
  path: '/merchants/{merchantId}/exports/transactions',
  operationId: 'exportTransactions',
  tag,
  summary: 'Export the transactions of a merchant as CSV',
  filter: transactionSearch,
  list: exportOwnTransactions,
  write: items => exportCsv(transactionColumns, items),
})

const trail = listEndpoint({
  path: '/transactions/{transactionId}/trail',
  operationId: 'listTrail',
  tag,
  summary: 'List the captures, refunds, voids and disputes of a transaction',
  filter: record({}),
  item: { schema: ref('TrailEntry'), example: trailEntryExample },
  list: listOwnTrail,
  present: presentTrailEntry,
})

const read = readEndpoint({
  path: '/transactions/{transactionId}',
  operationId: 'getTransaction',
  tag,
  summary: 'Read a transaction',
  field: 'transaction',
  item,
  find: ownTransaction,
  present: transaction => presentTransaction(transaction),
})

interface ChangeEndpoint<Input> {
  readonly path: 'captures' | 'refunds' | 'voids'
  readonly operationId: string
  readonly summary: string
  readonly schema: 'CaptureInput' | 'VoidInput'
  readonly parse: (body: unknown, encoding: Encoding) => Result<Input>
  readonly change: (tx: Tx, payments: Payments, request: ChangeRequest<Input>) => Promise<Result<Transaction>>
}

function changeEndpoint<Input extends object>(endpoint: ChangeEndpoint<Input>): AppEndpoint<Input> {
  const { path, operationId, summary, schema, parse, change } = endpoint
  return {
    kind: 'app',
    method: 'POST',
    path: `/transactions/{transactionId}/${path}`,
    document: {
      operationId,
      tag,
      summary,
      body: { schema: ref(schema), example: { amount: 10_000, currency: 'DKK' }, required: true },
      answers: { 201: transaction },
    },
    parse: ({ body, encoding }) => parse(body, encoding),
    async act(tx, { payments, app, param, input }) {
      return mapResult(
        await change(tx, payments, { app, transactionId: param('transactionId'), input }),
        changed => jsonAnswer(201, { transaction: presentTransaction(changed) }),
      )
    },
  }
}

const storeCard: AppEndpoint<SaveCardInput> = {
  kind: 'app',
  method: 'POST',
  path: '/merchants/{merchantId}/cards',
  document: {
    operationId: 'saveCard',
    tag: 'Cards',
    summary: 'Save the card of an earlier transaction',
    body: {
      schema: ref('CardInput'),
      example: { transactionId: exampleIds.transaction, notes: cardExample.notes },
      required: true,
    },
    answers: { 201: answerWith('card', { schema: ref('Card'), example: cardExample }) },
  },
  parse: ({ body, encoding }) => parseCard(body, encoding),
  async act(tx, { payments, app, param, input }) {
    return mapResult(await saveCard(tx, payments, { app, merchantId: param('merchantId'), input }), card =>
      jsonAnswer(201, { card: presentCard(card) }),
    )
  },
}

const readCard = readEndpoint({
  path: '/cards/{cardId}',
  operationId: 'getCard',
  tag: 'Cards',
  summary: 'Read a saved card',
  field: 'card',
  item: { schema: ref('Card'), example: cardExample },
  find: ownCard,
  present: presentCard,
})

/** The endpoints of transactions, and of cards that were saved from transactions. */
export const transactionEndpoints: readonly PaymentsEndpoint[] = [
  create,
  list,
  exported,
  read,
  trail,
  changeEndpoint({
    path: 'captures',
    operationId: 'captureTransaction',
    summary: 'Capture the pending amount, or a part of it',
    schema: 'CaptureInput',
    parse: parseCapture,
    change: captureOwnTransaction,
  }),
  changeEndpoint({
    path: 'refunds',
    operationId: 'refundTransaction',
    summary: 'Refund the captured amount, or a part of it',
    schema: 'CaptureInput',
    parse: parseRefund,
    change: refundOwnTransaction,
  }),
  changeEndpoint({
    path: 'voids',
    operationId: 'voidTransaction',
    summary: 'Void the pending amount, or a part of it',
    schema: 'VoidInput',
    parse: parseVoid,
    change: voidOwnTransaction,
  }),
  storeCard,
  readCard,
]
