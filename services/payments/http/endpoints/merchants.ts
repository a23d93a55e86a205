import { exportCsv, lineColumns } from '../../domain/export.ts'
import { parseMerchant, parseMerchantUpdate } from '../../domain/input/request-bodies.ts'
import { lineSearch } from '../../domain/input/search.ts'
import {
  exampleMerchantInput,
  type MerchantInput,
  type MerchantUpdate,
} from '../../domain/merchant/merchant.ts'
import { presentBalances, presentLine, presentMerchant } from '../../domain/present.ts'
import { accept, mapResult } from '../../domain/rejections.ts'
import { ownLine, ownMerchant } from '../../operations/accounts/access.ts'
import { createMerchant, updateOwnMerchant } from '../../operations/accounts/merchants.ts'
import { listOwnLines } from '../../operations/lists.ts'
import { merchantBalances } from '../../storage/tables/ledger.ts'
import { jsonAnswer, noContent } from '../answer.ts'
import type { AppEndpoint, Example, PaymentsEndpoint } from '../endpoint.ts'
import { exportEndpoint, listEndpoint } from '../list-endpoint.ts'
import { balanceExample, lineExample, merchantExample } from '../openapi/examples.ts'
import { ref, wrapped } from '../openapi/schemas.ts'

const tag = 'Merchants'
const merchant: Example = {
  schema: wrapped('merchant', ref('Merchant')),
  example: { merchant: merchantExample },
}

const create: AppEndpoint<MerchantInput> = {
  kind: 'app',
  method: 'POST',
  path: '/merchants',
  document: {
    operationId: 'createMerchant',
    tag,
    summary: 'Create a merchant',
    description:
      'The app that creates the merchant has access to it. Until a card processor is configured, only test accounts ' +
      '(`test: true`) can be created.',
    body: { schema: ref('MerchantInput'), example: exampleMerchantInput, required: true },
    answers: { 201: merchant },
  },
  parse: ({ body, encoding, payments }) => parseMerchant(body, encoding, payments.fundingCurrencies),
  async act(tx, { payments, app, input }) {
    return mapResult(await createMerchant(tx, payments, { app, input }), made =>
      jsonAnswer(201, { merchant: presentMerchant(made) }),
    )
  },
}

const read: AppEndpoint = {
  kind: 'app',
  method: 'GET',
  path: '/merchants/{merchantId}',
  document: { operationId: 'getMerchant', tag, summary: 'Read a merchant', answers: { 200: merchant } },
  async act(tx, { app, params }) {
    return mapResult(await ownMerchant(tx, app, params['merchantId'] ?? ''), found =>
      jsonAnswer(200, { merchant: presentMerchant(found) }),
    )
  },
}

const update: AppEndpoint<MerchantUpdate> = {
  kind: 'app',
  method: 'PUT',
  path: '/merchants/{merchantId}',
  document: {
    operationId: 'updateMerchant',
    tag,
    summary: 'Change a merchant',
    description:
      'The fields of MerchantUpdate; all others are fixed. The answer has the merchant where the request ' +
      'accepts JSON, and no body where it has no Accept header, or X-Client as the public client does.',
    body: { schema: ref('MerchantUpdate'), example: { name: merchantExample.name }, required: true },
    answers: { 200: merchant, 204: null },
  },
  parse: ({ body, encoding }) => parseMerchantUpdate(body, encoding),
  async act(tx, { payments, app, params, input, wantsChanged }) {
    const request = { app, merchantId: params['merchantId'] ?? '', update: input }
    const updated = await updateOwnMerchant(tx, payments, request)
    if (!updated.ok) return updated
    return wantsChanged
      ? accept(jsonAnswer(200, { merchant: presentMerchant(updated.value) }))
      : accept(noContent)
  },
}

const balance: AppEndpoint = {
  kind: 'app',
  method: 'GET',
  path: '/merchants/{merchantId}/balance',
  document: {
    operationId: 'getBalance',
    tag,
    summary: 'Read the balance of a merchant',
    description: 'Both parts are from the same moment. The next payout pays the available amount.',
    answers: { 200: { schema: wrapped('balance', ref('Balance')), example: { balance: balanceExample } } },
  },
  async act(tx, { app, params }) {
    const found = await ownMerchant(tx, app, params['merchantId'] ?? '')
    if (!found.ok) return found
    return accept(jsonAnswer(200, { balance: presentBalances(await merchantBalances(tx, found.value)) }))
  },
}

const lines = listEndpoint({
  path: '/merchants/{merchantId}/lines',
  operationId: 'listLines',
  tag,
  summary: 'List the lines of a merchant’s balance',
  filter: lineSearch,
  item: { schema: ref('Line'), example: lineExample },
  owner: params => params['merchantId'] ?? '',
  list: listOwnLines,
  present: presentLine,
})

const exported = exportEndpoint({
  path: '/merchants/{merchantId}/exports/lines',
  operationId: 'exportLines',
  tag,
  summary: 'Export the lines of a merchant as CSV',
  filter: lineSearch,
  owner: params => params['merchantId'] ?? '',
  list: listOwnLines,
  write: items => exportCsv(lineColumns, items),
})

const line: AppEndpoint = {
  kind: 'app',
  method: 'GET',
  path: '/lines/{lineId}',
  document: {
    operationId: 'getLine',
    tag,
    summary: 'Read a line',
    answers: { 200: { schema: wrapped('line', ref('Line')), example: { line: lineExample } } },
  },
  async act(tx, { app, params }) {
    return mapResult(await ownLine(tx, app, params['lineId'] ?? ''), found =>
      jsonAnswer(200, { line: presentLine(found) }),
    )
  },
}

export const merchantEndpoints: readonly PaymentsEndpoint[] = [
  create,
  read,
  update,
  balance,
  lines,
  exported,
  line,
]
