import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseForm } from './form.ts'
import { parsePage } from './page.ts'
import type { Reader } from './record.ts'
import { lineSearch, transactionSearch } from './search.ts'

function search(query: string, filter: Reader<unknown> = transactionSearch): unknown {
  const form = parseForm(`limit=1&${query}`)
  if (!form.ok) return form
  const result = parsePage(form.value, filter)
  if (result.ok) return result.value.filter
  return result.rejection.fields.map(({ field, code, message }) => `${field} ${code}: ${message}`).join('; ')
}

const nothing = { reference: null, custom: null, status: null, fromMs: null, toMs: null }
const dayMs = 86_400_000

test('the query of a search is parsed, and its range of time has a default', () => {
  const fromMs = Date.UTC(2026, 6, 1)
  const toMs = fromMs + 366 * dayMs
  assert.deepEqual(search(''), nothing)
  assert.deepEqual(search('filter[reference]=A-17'), { ...nothing, reference: 'A-17' })
  assert.deepEqual(search('filter[created][from]=2026-07-01'), { ...nothing, fromMs, toMs })
  assert.deepEqual(search('filter[created][from]=2026-07-01T02:00%2B02:00&filter[created][to]=2026-07-02'), {
    ...nothing,
    fromMs,
    toMs: fromMs + dayMs,
  })
  assert.deepEqual(
    search('filter[created][from]=2026-07-01&filter[status]=captured&filter[custom][order]=1'),
    { ...nothing, fromMs, toMs, status: 'captured', custom: { order: '1' } },
  )
})

test('an invalid search names the field, the value found and the allowed values', () => {
  const from = 'filter[created][from]=2026-07-01'
  const example = 'is not a date or time such as 2026-07-01T08:30:00Z'
  const needed = 'is missing; a search by status, custom or created.to needs it'
  const table: readonly (readonly [string, string])[] = [
    ['filter[created][from]=yesterday', `filter.created.from format: "yesterday" ${example}`],
    ['filter[created][from]=2026-02-30', `filter.created.from format: "2026-02-30" ${example}`],
    ['filter[created][from]=2026-07-01T25:00Z', `filter.created.from format: "2026-07-01T25:00Z" ${example}`],
    ['filter[created][from]=2026-07-01T08:30', `filter.created.from format: "2026-07-01T08:30" ${example}`],
    ['filter[created]=2026', 'filter.created type: "2026" is not an object with fields'],
    ['filter[created][to]=2026-07-01', `filter.created.from required: ${needed}`],
    ['filter[status]=captured', `filter.created.from required: ${needed}`],
    ['filter[custom][a]=1', `filter.created.from required: ${needed}`],
    [`${from}&filter[created][to]=2026-07-01`, 'filter.created.to too_small: is not later than created.from'],
    [
      `${from}&filter[created][to]=2027-07-03`,
      'filter.created.to too_large: is 367 days after created.from; at most 366 days are allowed',
    ],
    [
      `${from}&filter[status]=paid`,
      'filter.status unsupported: "paid" is not one of pending, captured, refunded, voided, disputed, declined',
    ],
    [
      `${from}&filter[custom]=A-17`,
      'filter.custom type: "A-17" is not a field with a value, such as filter[custom][order]=A-17',
    ],
    [`${from}&filter[custom][a][b]=1`, 'filter.custom.a type: an object is not a string'],
    [
      `${from}&${[1, 2, 3, 4, 5, 6].map(n => `filter[custom][${n}]=1`).join('&')}`,
      'filter.custom too_many: has 6 fields; at most 5 are allowed',
    ],
    [
      `filter[reference]=${'x'.repeat(201)}`,
      'filter.reference too_long: has 201 characters; at most 200 are allowed',
    ],
    [`filter[reference]=%00`, 'filter.reference format: has control characters or broken Unicode'],
    ['filter[ref]=1', 'filter.ref unknown: unknown field; allowed are reference, custom, status, created'],
  ]
  for (const [query, message] of table) assert.equal(search(query), message, query)
})

test('a search of lines accepts the same range of time', () => {
  const fromMs = Date.UTC(2026, 6, 1)
  const from = 'filter[created][from]=2026-07-01'
  assert.deepEqual(search('', lineSearch), { transactionId: null, fromMs: null, toMs: null })
  assert.deepEqual(search(from, lineSearch), { transactionId: null, fromMs, toMs: fromMs + 366 * dayMs })
  assert.match(`${search('filter[created][to]=2026-07-01', lineSearch)}`, /^filter.created.from required/)
  assert.match(
    `${search(`${from}&filter[created][to]=2026-07-01`, lineSearch)}`,
    /^filter.created.to too_small/,
  )
})
