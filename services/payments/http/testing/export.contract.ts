import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { payByCard } from '../../operations/testing/pay-under-test.ts'
import { type ApiUnderTest, openShop, payAt, sharedApi, type TestShop } from './api-under-test.ts'

let api: ApiUnderTest
let shop: TestShop
before(async () => {
  api = await sharedApi()
  shop = await openShop(api)
})

async function exported(what: string, query = 'limit=1000', key = shop.key) {
  const answer = await api.call('GET', `/merchants/${shop.merchantId}/exports/${what}?${query}`, { key })
  return { ...answer, records: answer.text.split('\r\n').slice(0, -1) }
}

test('transactions and lines are exported page by page, with formulas neutralised', async () => {
  const formula = '=HYPERLINK("https://evil.example","ø")'
  await payByCard(api.payments, {
    merchantKey: shop.publicKey,
    input: { currency: 'DKK', amount: 500n, descriptor: '+SHOP', custom: { note: '=1' } },
    reference: formula,
    card: { number: '4100 0000 0000 0001', expiryMonth: 12, expiryYear: 2030, code: '123' },
    attempt: 'export-with-a-formula',
  })
  const { id } = await payAt(api, shop, { amount: 900n })
  await api.call('POST', `/transactions/${id}/captures`, { key: shop.key, json: { amount: 300 } })
  await api.call('POST', `/transactions/${id}/refunds`, { key: shop.key, json: { amount: 100 } })

  const { status, headers, records } = await exported('transactions')
  assert.deepEqual([status, headers.get('content-type')], [200, 'text/csv; charset=utf-8'])
  const [header = '', newest = '', oldest = ''] = records
  assert.match(header, /^"id","created","test","reference","currency","amount","pendingAmount",/)
  assert.match(
    newest,
    new RegExp(`^"${id}","[^"]+",true,,"DKK",900,600,300,100,0,0,true,,false,,"visa","0001",`),
  )
  assert.ok(oldest.includes(',"\'=HYPERLINK(""https://evil.example"",""ø"")","DKK",500,'), oldest)
  assert.ok(oldest.endsWith(',"\'+SHOP","{""note"":""=1""}"'), oldest)
  assert.equal(records.length, 3)
  assert.deepEqual((await exported('transactions', `limit=1&before=${id}`)).records, [header, oldest])
  const searched = await exported('transactions', `limit=9&filter[reference]=${encodeURIComponent(formula)}`)
  assert.deepEqual(searched.records, [header, oldest])

  const lines = await exported('lines', `limit=9&filter[transactionId]=${id}`)
  const kinds = lines.records.slice(1).map(record => record.split(',').slice(3, 8).join(' '))
  assert.deepEqual(kinds, [`"refund" "${id}" "Refund" "DKK" 100`, `"capture" "${id}" "Capture" "DKK" 300`])
})

test('an invalid export is rejected like a list, in JSON', async () => {
  const stranger = await openShop(api)
  assert.equal((await exported('transactions', 'limit=1', stranger.key)).status, 404)
  const { status, text } = await exported('lines', 'limit=1001')
  assert.equal(status, 400)
  assert.match(text, /"field":"limit","code":"too_large","message":"\\"1001\\" is above 1000"/)
  const path = `/merchants/${shop.merchantId}/exports/lines?limit=1`
  const rejected = await api.call('GET', path, { key: shop.key, headers: { accept: 'application/json' } })
  assert.deepEqual(rejected.json, { code: 'not_acceptable', message: 'Responses are text/csv only.' })
})
