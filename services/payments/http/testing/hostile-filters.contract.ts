import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import fc from 'fast-check'
import { payByCard } from '../../operations/testing/pay-under-test.ts'
import { type ApiUnderTest, openShop, sharedApi, startMs, type TestShop } from './api-under-test.ts'

/** The number of runs of each property. */
const runs = Number(process.env['FC_RUNS'] ?? 300)

let api: ApiUnderTest
let shop: TestShop
before(async () => {
  api = await sharedApi()
  shop = await openShop(api)
  await pay('A-17', 'Coffee')
})

function pay(reference: string, note: string) {
  return payByCard(api.payments, {
    merchantKey: shop.publicKey,
    input: { currency: 'DKK', amount: 500n, descriptor: null, custom: { note } },
    reference,
    card: { number: '4100 0000 0000 0001', expiryMonth: 12, expiryYear: 2030, code: '123' },
    attempt: `hostile-filters-${reference}`,
  })
}

const lists = ['transactions', 'exports/transactions', 'lines', 'exports/lines'] as const
const from = `filter[created][from]=${new Date(startMs - 86_400_000).toISOString().slice(0, 10)}`

function get(list: string, query: string) {
  return api.call('GET', `/merchants/${shop.merchantId}/${list}?limit=50&${query}`, { key: shop.key })
}

/** Resolves with the number of records in the answer, which is JSON or CSV. */
async function found(list: string, query: string): Promise<number> {
  const { status, json, text } = await get(list, query)
  assert.equal(status, 200, `${query}: ${text}`)
  return Array.isArray(json) ? json.length : text.split('\r\n').length - 2
}

const injections = [
  "' OR '1'='1",
  "'; DROP TABLE transactions; --",
  "A-17' --",
  '%',
  '_-__',
  'A-1%',
  '\\',
  '$1',
  'A-17"}',
  '{"note":"Coffee"}',
  '__proto__',
  'constructor',
  '💳'.repeat(50),
  'x'.repeat(200),
]

test('values with SQL, patterns and JSON are compared as text', async () => {
  for (const list of ['transactions', 'exports/transactions']) {
    assert.equal(await found(list, 'filter[reference]=A-17'), 1)
    assert.equal(await found(list, `${from}&filter[custom][note]=Coffee`), 1)
    for (const value of injections) {
      const text = encodeURIComponent(value)
      const { status, json } = await get(list, `filter[reference]=${text}`)
      // The filter rejects a reference that no link can have.
      if (status !== 400) assert.equal(await found(list, `filter[reference]=${text}`), 0, value)
      else assert.match(JSON.stringify(json), /filter\.reference/)
      assert.equal(await found(list, `${from}&filter[custom][note]=${text}`), 0, value)
      if (value === '__proto__') continue
      assert.equal(
        await found(list, `${from}&filter[custom][${encodeURIComponent(value.slice(0, 20))}]=1`),
        0,
      )
    }
  }
})

/** Queries that are rejected, each with the field or the code of the rejection. */
const rejected: readonly (readonly [string, string])[] = [
  [`filter[created][from]=9${'9'.repeat(400)}`, 'filter.created.from'],
  ['filter[created][from]=2026-02-30', 'filter.created.from'],
  ['filter[created][from]=-271821-04-20', 'filter.created.from'],
  ['filter[created][from]=now()', 'filter.created.from'],
  ['filter[created][from][from]=2026-01-01', 'filter.created.from'],
  ['filter[created][from]=0001-01-01&filter[created][to]=9999-12-31', 'filter.created.to'],
  ['filter[created][from]=2026-01-02&filter[created][to]=2026-01-01', 'filter.created.to'],
  ['filter[created][since]=2026-01-01', 'filter.created.since'],
  ['filter[__proto__][x]=1', 'malformed_body'],
  ['filter[created][from]=2026-01-01&filter[created][from]=2026-01-01', 'malformed_body'],
  ['limit=50', 'malformed_body'],
  ['filter=1', 'filter'],
  ['filter[]=1', 'malformed_body'],
  ['before=%27%20OR%201=1', 'before'],
  ['after=00000000-0000-0000-0000-00000000000g', 'after'],
  ['sort[created]=asc;%20DROP', 'sort.created'],
]
const rejectedSearches: readonly (readonly [string, string])[] = [
  ['filter[reference]=%00', 'filter.reference'],
  [`filter[reference]=${'x'.repeat(2_000)}`, 'filter.reference'],
  ['filter[reference][a]=1', 'filter.reference'],
  [`${from}&filter[custom][note]=%00`, 'filter.custom.note'],
  [`${from}&filter[custom][note]=${'x'.repeat(201)}`, 'filter.custom.note'],
  [`${from}&filter[custom][a][b]=1`, 'filter.custom.a'],
  [`${from}&${[1, 2, 3, 4, 5, 6].map(n => `filter[custom][f${n}]=1`).join('&')}`, 'filter.custom'],
  [`${from}&filter[status]=__proto__`, 'filter.status'],
  ['filter[custom][note]=Coffee', 'filter.created.from'],
]

test('filters beyond the limits are rejected with the name of the field', async () => {
  for (const list of lists) {
    const own = list.endsWith('transactions') ? rejectedSearches : []
    for (const [query, field] of [...rejected, ...own]) {
      const { status, json } = await get(list, query)
      const fields = (Array.isArray(json) ? json : [json]) as readonly {
        readonly field?: string
        readonly code: string
      }[]
      assert.equal(status, 400, `${list} ${query}`)
      assert.ok(
        fields.some(({ field: named = '', code }) => `${named}.`.startsWith(`${field}.`) || code === field),
        `${query}: ${JSON.stringify(json)}`,
      )
    }
  }
})

test(`no filter of ${runs} causes an error of the server`, async () => {
  const nasty = fc.constantFrom(
    '',
    '\u0000',
    "'",
    '%',
    '\ud800',
    '__proto__',
    '1e400',
    '-1',
    '2026-01-01',
    '[]',
  )
  const word = fc.oneof(nasty, fc.string({ unit: 'binary', maxLength: 12 }))
  const part = fc.oneof(fc.constantFrom('created', 'from', 'to', 'custom', 'status', 'reference'), word)
  const encode = (text: string) => encodeURIComponent(text.toWellFormed())
  const filter = fc
    .tuple(fc.array(part, { minLength: 1, maxLength: 3 }), word)
    .map(([parts, value]) => `filter${parts.map(one => `[${encode(one)}]`).join('')}=${encode(value)}`)
  const query = fc.tuple(fc.boolean(), fc.array(filter, { maxLength: 3 }))
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...lists), query, async (list, [isBounded, filters]) => {
      const { status, text } = await get(list, [...(isBounded ? [from] : []), ...filters].join('&'))
      assert.ok(status === 200 || status === 400, text)
    }),
    { numRuns: runs, endOnFailure: true },
  )
})

test('no cell of an export begins a formula, whatever payers and merchants entered', async () => {
  const formulas = ['=1+1', '+1', '-1', '@SUM(A1)', ' =1', '＝1', "=cmd|'/C calc'!A0", '"=1', '=1,"x']
  for (const formula of formulas) await pay(formula, formula)
  const { text } = await get('exports/transactions', '')
  const cells = [...text.matchAll(/(?:^|,)"((?:[^"]|"")*)"/gm)].map(([, cell = '']) => cell)
  for (const cell of cells) assert.doesNotMatch(cell, /^\s*[=+\-@＝＋－＠\t\r]/u)
  for (const formula of formulas) {
    const written = cells.filter(cell => cell.replaceAll('""', '"').replace(/^'/, '') === formula)
    assert.equal(written.length, 1, formula)
  }
})
