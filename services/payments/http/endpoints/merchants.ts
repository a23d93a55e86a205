import { exportCsv, lineColumns } from '../../domain/export.ts'
import { parseMerchant, parseMerchantUpdate } from '../../domain/input/request-bodies.ts'
import { lineSearch } from '../../domain/input/search.ts'
import { exampleMerchantInput, type MerchantInput, type MerchantUpdate } from '../../domain/merchant.ts'
import { presentBalances, presentLine, presentMerchant } from '../../domain/present.ts'
import { accept, mapResult } from '../../domain/rejections.ts'
import { ownLine, ownMerchant } from '../../operations/accounts/access.ts'
import { createMerchant, updateOwnMerchant } from '../../operations/accounts/merchants.ts'
import { listOwnLines } from '../../operations/lists.ts'
import { merchantBalances } from '../../storage/tables/ledger.ts'
import { jsonAnswer, noContent } from '../answer.ts'
import type { AppEndpoint, Example, PaymentsEndpoint } from '../endpoint.ts'
import { exportEndpoint, listEndpoint, readEndpoint } from '../get-endpoints.ts'
import { balanceExample, lineExample, merchantExample } from '../openapi/examples.ts'
import { answerWith, ref } from '../openapi/schemas.ts'

const tag = 'Merchants'
const item: Example = { schema: ref('Merchant'), example: merchantExample }
const merchant = answerWith('merchant', item)

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

const read = readEndpoint({
  path: '/merchants/{merchantId}',
  operationId: 'getMerchant',
  tag,
  summary: 'Read a merchant',
  field: 'merchant',
  item,
  find: ownMerchant,
  present: presentMerchant,
})

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
  async act(tx, { payments, app, param, input, wantsChanged }) {
    const request = { app, merchantId: param('merchantId'), update: input }
    return mapResult(await updateOwnMerchant(tx, payments, request), updated =>
      wantsChanged ? jsonAnswer(200, { merchant: presentMerchant(updated) }) : noContent,
    )
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
    answers: { 200: answerWith('balance', { schema: ref('Balance'), example: balanceExample }) },
  },
  async act(tx, { app, param }) {
    const found = await ownMerchant(tx, app, param('merchantId'))
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
  list: listOwnLines,
  present: presentLine,
})

const exported = exportEndpoint({
  path: '/merchants/{merchantId}/exports/lines',
  operationId: 'exportLines',
  tag,
  summary: 'Export the lines of a merchant as CSV',
  filter: lineSearch,
  list: listOwnLines,
  write: items => exportCsv(lineColumns, items),
})

const line = readEndpoint({
  path: '/lines/{lineId}',
  operationId: 'getLine',
  tag,
  summary: 'Read a line',
  field: 'line',
  item: { schema: ref('Line'), example: lineExample },
  find: ownLine,
  present: presentLine,
})

export const merchantEndpoints: readonly PaymentsEndpoint[] = [
  create,
  read,
  update,
  balance,
  lines,
  exported,
  line,
]
