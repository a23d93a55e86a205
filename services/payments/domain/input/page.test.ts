import assert from 'node:assert/strict'
import { test } from 'node:test'
import { booleanFlag, id } from './fields.ts'
import { parseForm } from './form.ts'
import { parsePage } from './page.ts'
import { optionalField, record, requiredField } from './record.ts'

const someId = '01890a5d-ac96-774b-bcce-b302099a8057'

const byTest = record({ test: optionalField(booleanFlag) })
const byMerchant = record({ merchantId: requiredField(id), transactionId: optionalField(id) })

function page(query: string, filter = byTest): unknown {
  const form = parseForm(query)
  if (!form.ok) return form
  const result = parsePage(form.value, filter)
  if (result.ok) return result.value
  return result.rejection.fields.map(error => `${error.field} ${error.code}`)
}

test('the query of a page has a limit, a cursor, a filter and an order', () => {
  const start = { limit: 10, after: null, before: null, order: null, filter: { test: null } }
  assert.deepEqual(page('limit=10'), start)
  assert.deepEqual(page(`limit=10&before=${someId}`), { ...start, before: { id: someId } })
  assert.deepEqual(page(`limit=10&after=${someId}`), { ...start, after: { id: someId } })
  assert.deepEqual(page('limit=10&filter[test]=yes'), { ...start, filter: { test: true } })
  assert.deepEqual(page('limit=10&filter[test]=0'), { ...start, filter: { test: false } })
  assert.deepEqual(page('limit=10&sort[created]=1'), { ...start, order: 'oldest' })
})

test('a creation time in an id of the public client is a cursor', () => {
  const found = page('limit=1&after=560fd96b0000000000000000')
  assert.deepEqual(found, {
    limit: 1,
    after: { timeMs: Date.UTC(2015, 9, 3, 13, 34, 35) },
    before: null,
    order: null,
    filter: { test: null },
  })
})

test('each invalid parameter of a query is rejected with its code', () => {
  for (const [query, rejected] of [
    ['', 'limit required'],
    ['limit=0', 'limit too_small'],
    ['limit=101', 'limit too_large'],
    ['limit=ten', 'limit type'],
    ['limit=1&before=x', 'before format'],
    ['limit=1&filter[test]=maybe', 'filter.test type'],
    ['limit=1&filter[status]=1', 'filter.status unknown'],
    ['limit=1&sort[amount]=1', 'sort.amount unknown'],
    ['limit=1&sort[created]=up', 'sort.created format'],
  ] as const) {
    assert.deepEqual(page(query), [rejected], query)
  }
  const withoutFilter = parsePage({ limit: '1' }, byMerchant)
  assert.ok(!withoutFilter.ok)
  assert.equal(withoutFilter.rejection.fields[0]?.field, 'filter.merchantId')
})
