import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  authorisationLifetimeMs,
  authorise,
  balanceOf,
  createHistory,
  type History,
  merchantUnderTest,
  operate,
  operations,
  payOutAll,
  pricingUnderTest,
} from '../../testing/history-under-test.ts'
import { verify } from '../ledger/verify.ts'
import type { Rejected, Result } from '../rejections.ts'

/**
 * Each row has steps with one transaction of a merchant in DKK, and the result: the amounts that are not
 * zero, and the merchant's balance. A rejected step shows the field and the code in brackets, or the code
 * alone.
 *
 * One EUR is 7.4604 DKK; one JPY is 7.4604 / 163.27 DKK, so 100 JPY are 4.57 DKK.
 */
const free = `
  authorise 300 DKK                              -> pending 300
  authorise 300 DKK; capture 100                 -> pending 200 captured 100, balance 100
  authorise 300 DKK; capture 200; refund 120     -> pending 100 captured 200 refunded 120, balance 80
  authorise 300 DKK; void 260                    -> pending 40 voided 260
  authorise 300 DKK; capture 100; refund 40      -> pending 200 captured 100 refunded 40, balance 60
  authorise 300 DKK; capture 300                 -> captured 300, balance 300
  authorise 300 DKK; void 300; capture 1         -> [amount too_large] voided 300
  authorise 300 DKK; capture 301                 -> [amount too_large] pending 300
  authorise 300 DKK; capture 0                   -> [amount too_small] pending 300
  authorise 300 DKK; capture 200; void 101       -> [amount too_large] pending 100 captured 200, balance 200
  authorise 300 DKK; capture 200; capture 101    -> [amount too_large] pending 100 captured 200, balance 200
  authorise 300 DKK; refund 1                    -> [amount too_large] pending 300
  authorise 300 DKK; capture 100; refund 60; refund 41
      -> [amount too_large] pending 200 captured 100 refunded 60, balance 40
  authorise 300 DKK; capture 100 DKK             -> pending 200 captured 100, balance 100
  authorise 300 DKK; capture 100 EUR             -> [currency mismatch] pending 300
  authorise 300 DKK; capture 9; refund 1 EUR     -> [currency mismatch] pending 291 captured 9, balance 9
  authorise 300 DKK; void 1 SEK                  -> [currency mismatch] pending 300

  authorise 300 DKK declined 7                   -> voided 300
  authorise 300 DKK declined 7; capture 1        -> [amount too_large] voided 300
  authorise 300 DKK declined 7; wait 8; expire   -> voided 300

  authorise 300 DKK; expire                      -> pending 300
  authorise 300 DKK; capture 100; wait 7; expire -> captured 100 voided 200, balance 100
  authorise 300 DKK; wait 7; capture 1           -> [amount expired] pending 300
  authorise 300 DKK; wait 7; void 1              -> [amount expired] pending 300
  authorise 300 DKK; capture 300; wait 9; refund 300 -> captured 300 refunded 300, balance 0

  authorise 300 DKK; capture 100; dispute 60     -> pending 200 captured 100 disputed 60, balance 40
  authorise 300 DKK; capture 100; dispute 60; refund 41
      -> [amount too_large] pending 200 captured 100 disputed 60, balance 40
  authorise 300 DKK; capture 100; dispute 60; win -> pending 200 captured 100, balance 100
  authorise 300 DKK; capture 100; dispute 60; win; refund 100
      -> pending 200 captured 100 refunded 100, balance 0
  authorise 300 DKK; capture 100; dispute 60; lose -> pending 200 captured 100 disputed 60, balance 40
  authorise 300 DKK; capture 100; dispute 60; lose; refund 41
      -> [amount too_large] pending 200 captured 100 disputed 60, balance 40
  authorise 300 DKK; capture 100; refund 50; dispute 51
      -> pending 200 captured 100 refunded 50 disputed 51, balance -1
  authorise 300 DKK; capture 100; dispute 0      -> [amount too_small] pending 200 captured 100, balance 100
  authorise 9 DKK; capture 9; refund 1; dispute 9 -> captured 9 refunded 1 disputed 9, balance -1
  authorise 9 DKK; capture 9; refund 1; dispute 9; lose -> captured 9 refunded 1 disputed 9, balance -1
  authorise 9 DKK; capture 9; refund 1; dispute 9; win; refund 8 -> captured 9 refunded 9, balance 0
  authorise 9 DKK; capture 9; refund 1; dispute 9; win; refund 9
      -> [amount too_large] captured 9 refunded 1, balance 8
  authorise 9 DKK; capture 9; dispute 9; dispute 9; win -> captured 9 disputed 9, balance 0
  authorise 300 DKK; dispute 100                 -> pending 300 disputed 100, balance -100
  authorise 300 DKK; capture 100; dispute 150; capture 200; refund 150
      -> captured 300 refunded 150 disputed 150, balance 0
  authorise 300 DKK; capture 100; dispute 150; capture 200; refund 151
      -> [amount too_large] captured 300 disputed 150, balance 150
  authorise 300 DKK; capture 300; dispute 300; dispute 200; win; refund 1
      -> [amount too_large] captured 300 disputed 300, balance 0
  authorise 300 DKK declined 7; dispute 100      -> voided 300 disputed 100, balance -100
  authorise 300 DKK; capture 100; dispute 30; dispute 70; win; lose
      -> pending 200 captured 100 disputed 30, balance 70

  authorise 100 EUR; capture 100                 -> captured 100, balance 746
  authorise 100 EUR; capture 33; capture 33; capture 34; refund 100 -> captured 100 refunded 100, balance 0
  authorise 100 EUR; capture 100; refund 1; refund 1; refund 98 -> captured 100 refunded 100, balance 0
  authorise 100 JPY; capture 100                 -> captured 100, balance 457
  authorise 100 JPY; capture 100; dispute 50; lose; refund 50
      -> captured 100 refunded 50 disputed 50, balance 0
  authorise 100 JPY; capture 100; refund 100; dispute 100
      -> captured 100 refunded 100 disputed 100, balance -457
  authorise 100 JPY; dispute 100; win            -> pending 100, balance 0
  authorise 100 SEK; dispute 10                  -> [rate_missing] pending 100
  authorise 1000 KWD; capture 1000               -> captured 1000, balance 2228
  authorise 100 SEK; capture 100                 -> [rate_missing] pending 100
  authorise 100 DKK; capture 100; payout         -> captured 100, balance 0
  authorise 100 DKK; capture 100; payout; refund 1 -> captured 100 refunded 1, balance -1
  authorise 100 DKK; payout                      -> [amount too_small] pending 100
`

/** Rows with fees: 1.35 % + 25 øre for a capture, 10 øre for a refund, and 150 kr. for a dispute. */
const withFees = `
  authorise 10000 DKK; capture 10000             -> captured 10000, balance 9840
  authorise 10000 DKK; capture 10; capture 10    -> pending 9980 captured 20, balance -30
  authorise 10000 DKK; capture 10000; refund 10000 -> captured 10000 refunded 10000, balance -170
  authorise 10000 DKK; capture 10000; dispute 10000; win -> captured 10000, balance -5160
  authorise 10000 DKK; capture 10000; dispute 10000; lose -> captured 10000 disputed 10000, balance -15160
`

const tables = {
  'without fees': { rows: free, pricing: pricingUnderTest() },
  'with fees': {
    rows: withFees,
    pricing: pricingUnderTest({
      DKK: { capture: { flat: '25', rate: '0.0135' }, refund: { flat: '10' }, dispute: { flat: '15000' } },
    }),
  },
}

for (const [name, { rows, pricing }] of Object.entries(tables)) {
  test(`histories of a transaction, ${name}`, () => {
    for (const row of rowsOf(rows)) {
      const [steps = '', expected = ''] = row.split('->').map(part => part.trim())
      const history = createHistory(merchantUnderTest, pricing)
      const rejections = steps.split(';').flatMap(step => take(history, step.trim()))
      assert.equal([...rejections, describe(history)].join(' '), expected, steps)
      assert.deepEqual(verify(history), [], steps)
    }
  })
}

/** Returns the rows of a table. The result of a row may be on the next line. */
function rowsOf(rows: string): readonly string[] {
  const joined = rows.replaceAll(/\n\s+->/g, ' ->')
  return joined.split('\n').filter(line => line.includes('->'))
}

/** @returns the rejections of the step; empty if it was accepted */
function take(history: History, step: string): string[] {
  const [verb, amount = '0', currency = null, , error = null] = step.split(' ')
  if (verb === 'authorise') {
    authorise(history, BigInt(amount), currency ?? '', error === null ? null : Number(error))
    return []
  }
  if (verb === 'wait') {
    history.nowMs += (Number(amount) / 7) * authorisationLifetimeMs
    return []
  }
  if (verb === 'payout') return tell(payOutAll(history))
  const operation = operations.find(name => name === verb)
  assert.ok(operation, `${step}: no such step`)
  return tell(operate(history, 0, operation, BigInt(amount), currency))
}

function tell(outcome: Result<unknown> | undefined): string[] {
  return outcome?.ok === false ? [`[${reasonOf(outcome)}]`] : []
}

function reasonOf({ rejection }: Rejected): string {
  return rejection.fields.map(({ field, code }) => `${field} ${code}`).join() || rejection.code
}

function describe(history: History): string {
  const [transaction] = history.transactions
  assert.ok(transaction)
  const amounts = {
    pending: transaction.pendingAmount,
    captured: transaction.capturedAmount,
    refunded: transaction.refundedAmount,
    voided: transaction.voidedAmount,
    disputed: transaction.disputedAmount,
  }
  const shown = Object.entries(amounts).filter(([, amount]) => amount !== 0n)
  const balance = history.lines.length === 0 ? '' : `, balance ${balanceOf(history)}`
  return shown.map(([name, amount]) => `${name} ${amount}`).join(' ') + balance
}

test('the trail lists the operations in the order of time', () => {
  const history = createHistory(merchantUnderTest, tables['with fees'].pricing)
  const steps =
    'authorise 20000 DKK; capture 10000; refund 1000; void 5000; dispute 2000; win; dispute 3000; lose'
  for (const step of steps.split('; ')) take(history, step)
  const [transaction] = history.transactions
  const trail = transaction?.trail.map(({ kind, amount, balance, fee, dispute }) =>
    [kind, dispute?.outcome ?? '', amount, balance, `${fee.flat}+${fee.rate}=${fee.total}`].join(' '),
  )
  assert.deepEqual(trail, [
    'capture  10000 9840 25+135=160',
    'refund  1000 -1010 10+0=10',
    'void  5000 0 0+0=0',
    'dispute won 2000 -15000 15000+0=15000',
    'dispute lost 3000 -18000 15000+0=15000',
  ])
})

test('a closed merchant accepts no payment, and can still refund', () => {
  const open = createHistory()
  authorise(open, 300n, 'DKK')
  operate(open, 0, 'capture', 100n)
  const closed = { ...createHistory({ ...merchantUnderTest, closedMs: 1 }), transactions: open.transactions }
  assert.deepEqual(tell(operate(closed, 0, 'capture', 1n)), ['[merchant_closed]'])
  assert.deepEqual(tell(operate(closed, 0, 'refund', 100n)), [])
  assert.deepEqual(tell(operate(closed, 0, 'void', 200n)), [])
})

test('the descriptor is that of the operation, else of the transaction, else of the merchant', () => {
  const history = createHistory()
  authorise(history, 300n, 'DKK')
  operate(history, 0, 'capture', 100n)
  assert.equal(history.transactions[0]?.trail[0]?.descriptor, 'Coffee & John')
})
