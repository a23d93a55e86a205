import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cpuMsOf } from '../../test/support/cpu-time.ts'
import { readRejection, rejectionText } from './read-rejection.ts'

const names = ['shop/pay', 'shop/pay-api', 'web-shop/pay', 'blog/all', 'blog/all: old']

/**
 * Each line has a message and, after the arrow, the rejection of each name in it. `⏎` stands for a line
 * break.
 */
const table = `
shop/pay: bad unit                                  → shop/pay = bad unit
shop/pay-api: bad unit                              → shop/pay-api = bad unit
web-shop/pay: bad unit                              → web-shop/pay = bad unit
not-a-shop/pay: bad unit                            →
blog/all: old: wrong                                → blog/all: old = wrong
error loading: shop/pay: bad unit                   → shop/pay = bad unit
error in "shop/pay: bad unit"                       → shop/pay = bad unit"
shop/pay: also in blog/all: twice                   → shop/pay = also in blog/all: twice
shop/pay: one⏎blog/all: two                         → shop/pay = one | blog/all = two
shop/pay: one⏎shop/pay: two                         → shop/pay = one; two
2 problems⏎shop/pay: one                            → shop/pay = one
shop/pay: one⏎  at descriptors[2]                   → shop/pay = one
shop/pay:                                           →
shop/pay: ⏎                                         → shop/pay = no reason was given
shop/pay is wrong                                   →
shop/gone: bad unit                                 →
`

for (const line of table.trim().split('\n')) {
  const [message = '', expected = ''] = line.split('→').map(part => part.trim())
  test(`the rejection ${JSON.stringify(message)} names ${expected || 'nothing'}`, () => {
    const found = readRejection(message.replaceAll('⏎', '\n'), names)
    assert.equal([...found].map(([name, text]) => `${name} = ${text}`).join(' | '), expected)
  })
}

test('a rejection is shown as one line without control characters, and a long one is cut', () => {
  assert.equal(rejectionText('one\r\n\ttwo\u001b[2J\u202ethree '), 'one two [2J three')
  assert.equal(rejectionText(' \n'), 'no reason was given')
  assert.equal(rejectionText('x'.repeat(5000)).length, 1024)
})

test('a hostile rejection is read in little time', () => {
  const many = Array.from({ length: 5000 }, (_, index) => `team-${index % 70}/limits-${index}`)
  const tookMs = cpuMsOf(() => {
    readRejection('team-1/limits-1: '.repeat(1000), many)
    readRejection(`${'team-1/limits-'.repeat(50_000)}: `, many)
    readRejection(': '.repeat(50_000), many)
  })
  assert.ok(tookMs < 2000, `${tookMs} ms`)
})
