import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import {
  type ApiUnderTest,
  openShop,
  payAt,
  sharedApi,
  type TestShop,
} from '../../http/testing/api-under-test.ts'
import { describeMalformed } from '../../processor/check-event.ts'
import type { CardProcessor, FollowUpRequest, ProcessorEvent } from '../../processor/processor.ts'
import { listOpenExceptions } from '../../storage/delivery/processor-exceptions.ts'
import { transact } from '../../storage/storage.ts'
import { findLedgerProblems } from '../../storage/tables/ledger.ts'
import { expireAuthorisations } from '../background/expire-authorisations.ts'
import { instructProcessor } from '../background/instruct-processor.ts'
import { closeExceptionByHand, retryException } from '../background/processor-exceptions.ts'
import { recordEvents } from '../background/record-events.ts'
import type { Payments } from '../operation.ts'
import { raiseDisputeByHand } from '../transactions/disputes.ts'
import { verifyBooks } from '../verify-books.ts'

let api: ApiUnderTest
let shop: TestShop
before(async () => {
  api = await sharedApi()
  shop = await openShop(api)
})

interface PresentedTransaction {
  readonly pendingAmount: number
  readonly voidedAmount: number
  readonly disputedAmount: number
  readonly trail: readonly Record<string, unknown>[]
}

async function read(id: string): Promise<PresentedTransaction> {
  const { json } = await api.call('GET', `/transactions/${id}`, shop)
  return (json as { transaction: PresentedTransaction }).transaction
}

async function listed(path: string): Promise<readonly Record<string, unknown>[]> {
  const filter = `filter[merchantId]=${shop.merchantId}`
  return (await api.call('GET', `${path}?limit=100&${filter}`, shop)).json as Record<string, unknown>[]
}

const capture = (id: string, amount: number) =>
  api.call('POST', `/transactions/${id}/captures`, { key: shop.key, json: { amount } })

test('frauds and disputes are recorded once, however often they are reported', async () => {
  const fraud = await payAt(api, shop, { number: '4100 0000 0400 1005' })
  const won = await payAt(api, shop, { number: '4100 0000 0400 3001' })
  const lost = await payAt(api, shop, { number: '4100 0000 0400 4009' })
  await capture(won.id, 400)
  await capture(lost.id, 300)
  // Repeats, because instructions of earlier tests are due too, and one run handles only a part.
  while ((await instructProcessor(api.payments)).due > 0);
  const { test: processor } = api.payments.processors
  const forgetful: CardProcessor = { ...processor, acknowledge: async () => {} }
  for (const told of [forgetful, forgetful, processor, processor]) {
    await Promise.all([recordEvents(api.payments, told, true), recordEvents(api.payments, forgetful, true)])
  }
  const frauds = await listed('/frauds')
  assert.deepEqual(
    frauds.map(({ transactionId, reason }) => [transactionId, reason]),
    [[fraud.id, 1]],
  )
  const disputes = new Map((await listed('/disputes')).map(one => [one['transactionId'], one]))
  assert.deepEqual(
    [disputes.size, disputes.get(won.id)?.['status'], disputes.get(lost.id)?.['status']],
    [2, 'won', 'lost'],
  )
  assert.deepEqual([(await read(won.id)).disputedAmount, (await read(lost.id)).disputedAmount], [0, 300])
  assert.equal((await read(won.id)).trail.length, 2)
  const problems = await api.storage.transaction(tx => findLedgerProblems(tx, 10), {
    isolation: 'repeatable read',
  })
  assert.deepEqual(problems, [])
})

test('an event without a known cause waits, and is stored as an exception after an hour', async () => {
  const pulled = [
    { kind: 'fraud', id: 'fraud_1', reference: 'test_nobody', occurredMs: api.clock.nowMs(), reason: null },
  ] as const
  const acknowledged: string[] = []
  const processor: CardProcessor = {
    ...api.payments.processors.test,
    pullEvents: async () => pulled,
    acknowledge: async ids => void acknowledged.push(...ids),
  }
  const outcomes = async () =>
    (await recordEvents(api.payments, processor, true)).map(({ outcome, isNew }) => `${outcome} ${isNew}`)
  assert.deepEqual(await outcomes(), ['waiting true'])
  assert.deepEqual(acknowledged, ['fraud_1'])
  assert.deepEqual(await openExceptions('fraud_1'), [])
  api.clock.elapse(60 * 60 * 1000)
  assert.deepEqual(await outcomes(), ['waiting false', 'unknown true'])
  assert.equal((await openExceptions('fraud_1')).length, 1)
})

test('a pending amount is voided when the authorisation expires', async () => {
  const { id } = await payAt(api, shop)
  await capture(id, 400)
  api.clock.elapse(7 * 24 * 60 * 60 * 1000)
  const late = await capture(id, 1)
  assert.deepEqual((late.json as { code: string }[])[0]?.code, 'expired')
  while ((await expireAuthorisations(api.payments)) > 0);
  const { pendingAmount, voidedAmount, trail } = await read(id)
  assert.deepEqual([pendingAmount, voidedAmount, trail.length], [0, 600, 2])
  assert.deepEqual([trail[1]?.['void'], trail[1]?.['amount']], [true, 600])
})

test('the processor gets each change once, in the order of the trail', async () => {
  while ((await instructProcessor(api.payments)).due > 0);
  const { id } = await payAt(api, shop)
  const told: string[] = []
  let away = true
  const tell = (kind: string) => async (request: FollowUpRequest) => {
    if (away) throw new Error('the processor is away')
    told.push(`${kind} ${request.amount} ${request.operationId}`)
  }
  const processor = { ...api.payments.processors.test, capture: tell('capture'), refund: tell('refund') }
  const payments: Payments = { ...api.payments, processors: { test: processor, live: null } }
  await capture(id, 500)
  await api.call('POST', `/transactions/${id}/refunds`, { key: shop.key, json: { amount: 200 } })
  const first = await instructProcessor(payments)
  assert.deepEqual(
    first.failures.map(({ kind, attempts, reason }) => [kind, attempts, reason]),
    [['capture', 1, 'the processor is away']],
  )
  assert.equal((await instructProcessor(payments)).due, 0)
  away = false
  api.clock.elapse(1_000)
  while ((await instructProcessor(payments)).due > 0);
  assert.deepEqual(
    told.map(line => line.split(' ').slice(0, 2).join(' ')),
    ['capture 500', 'refund 200'],
  )
})

/** Returns a processor that always reports these events, and a list of the acknowledged ids. */
function reporting(...events: readonly ProcessorEvent[]) {
  const acknowledged: string[] = []
  const processor: CardProcessor = {
    ...api.payments.processors.test,
    pullEvents: async () => events,
    acknowledge: async ids => void acknowledged.push(...ids),
  }
  return { acknowledged, record: () => recordEvents(api.payments, processor, true) }
}

async function referenceOf(id: string): Promise<string> {
  const [row] = await api.storage.read(tx =>
    tx.query<{ reference: string }>(
      'SELECT processor_reference AS reference FROM transactions WHERE id = $1',
      [id],
    ),
  )
  return row?.reference ?? ''
}

async function raised(id: string, name: string, amount: bigint, currency = 'DKK'): Promise<ProcessorEvent> {
  const at = { occurredMs: api.clock.nowMs(), dueMs: null }
  const about = { dispute: name, reference: await referenceOf(id), amount, currency }
  return { kind: 'dispute-raised', id: `${name}_raised`, reason: 'fraudulent', ...about, ...at }
}

/** Sorted as `ids`, because several exceptions can be created in the same millisecond. */
const openExceptions = async (...ids: readonly string[]) =>
  (await api.storage.read(tx => listOpenExceptions(tx, 1_000)))
    .filter(({ event }) => ids.includes(event.id))
    .sort((a, b) => ids.indexOf(a.event.id) - ids.indexOf(b.event.id))

async function assertSound(): Promise<void> {
  assert.deepEqual((await verifyBooks(api.storage)).findings, [])
}

test('a chargeback above the refundable amount is booked, and the balance becomes negative', async () => {
  const own = await openShop(api)
  const { id } = await payAt(api, own, { amount: 10_000n })
  const change = (kind: string, amount: number) =>
    api.call('POST', `/transactions/${id}/${kind}`, { key: own.key, json: { amount } })
  await change('captures', 10_000)
  await change('refunds', 1_000)
  const balance = async () => {
    const [row] = await api.storage.read(tx =>
      tx.query<{ sum: bigint }>('SELECT sum(balance)::bigint AS sum FROM lines WHERE merchant_id = $1', [
        own.merchantId,
      ]),
    )
    return Number(row?.sum)
  }
  const before = await balance()
  const { record, acknowledged } = reporting(await raised(id, 'beyond', 10_000n))
  assert.deepEqual(
    (await record()).map(({ outcome }) => outcome),
    ['exceeded'],
  )
  assert.deepEqual(acknowledged, ['beyond_raised'])
  // The dispute takes 10000 and a fee of 10000.
  assert.equal(await balance(), before - 20_000)
  const path = `/disputes?limit=9&filter[merchantId]=${own.merchantId}`
  const [dispute] = (await api.call('GET', path, own)).json as Record<string, unknown>[]
  assert.deepEqual([dispute?.['amount'], dispute?.['excess'], dispute?.['status']], [10_000, 1_000, 'open'])
  const events = (await api.call('GET', `/merchants/${own.merchantId}/events?limit=9`, own)).json as {
    type: string
    data: { dispute?: { excess: number } }
  }[]
  const event = events.find(({ type }) => type === 'dispute.raised')
  assert.equal(event?.data.dispute?.excess, 1_000)
  const late = await change('refunds', 1)
  assert.equal(late.status, 400)
  const won = { kind: 'dispute-resolved', id: 'beyond_won', dispute: 'beyond', outcome: 'won' } as const
  const reference = await referenceOf(id)
  await reporting({ ...won, reference, occurredMs: api.clock.nowMs() }).record()
  assert.equal(await balance(), before - 10_000)
  assert.equal((await change('refunds', 9_000)).status, 201)
  assert.equal((await change('refunds', 1)).status, 400)
  await assertSound()
})

test('a dispute by hand above the refundable amount is booked too', async () => {
  const { id } = await payAt(api, shop, { amount: 500n })
  const request = { transactionId: id, amount: 700n, reason: null, dueMs: null }
  const dispute = await transact(api.payments.storage, tx => raiseDisputeByHand(tx, api.payments, request))
  assert.ok(dispute.ok && dispute.value.excess === 700n)
  assert.equal((await read(id)).disputedAmount, 700)
  await assertSound()
})

test('an event that contradicts the books is stored before it is acknowledged', async () => {
  const { id } = await payAt(api, shop)
  await capture(id, 500)
  const reference = await referenceOf(id)
  const occurredMs = api.clock.nowMs()
  const resolved = { kind: 'dispute-resolved', dispute: 'contradicted', reference, occurredMs } as const
  const zero = { kind: 'fraud', id: 'zero\0character', reference: 'none\0', occurredMs, reason: 1 } as const
  const { record, acknowledged } = reporting(
    { kind: 'fraud', id: 'wrong_reason', reference, occurredMs, reason: 99 },
    zero,
    { kind: 'fraud', id: 'nobody', reference: 'test_nobody', occurredMs, reason: 1 },
    await raised(id, 'foreign', 100n, 'EUR'),
    await raised(id, 'nothing', 0n),
    await raised(id, 'huge', 10n ** 17n),
    await raised(id, 'contradicted', 100n),
    { ...resolved, id: 'contradicted_won', outcome: 'won' },
    { ...resolved, id: 'contradicted_lost', outcome: 'lost' },
    { kind: 'fraud', id: 'the last one', reference, occurredMs, reason: 1 },
  )
  const outcomesWith = (nobody: string) => [
    'malformed',
    'malformed',
    nobody,
    'refused',
    'malformed',
    'malformed',
  ]
  assert.deepEqual(
    (await record()).map(({ outcome }) => outcome),
    [...outcomesWith('waiting'), 'recorded', 'recorded', 'refused', 'recorded'],
  )
  assert.equal(acknowledged.length, 10)
  api.clock.elapse(60 * 60 * 1000)
  await record()
  const { id: hashed } = describeMalformed(zero)
  const ids = ['wrong_reason', hashed, 'nobody', 'foreign_raised', 'nothing_raised', 'huge_raised']
  const stored = await openExceptions(...ids, 'contradicted_lost')
  assert.deepEqual(
    stored.map(({ outcome }) => outcome),
    [...outcomesWith('unknown'), 'refused'],
  )
  for (const { reason } of stored) assert.notEqual(reason, '')
  // Records the events again, as after a lost acknowledgement.
  await record()
  assert.equal((await openExceptions(...ids, 'contradicted_lost')).length, 7)
  await assertSound()
})

test('an exception is booked by a retry once its cause is known, or closed by hand with a note', async () => {
  const { id } = await payAt(api, shop)
  const reference = await referenceOf(id)
  const occurredMs = api.clock.nowMs()
  const resolved = { kind: 'dispute-resolved', dispute: 'early', reference, occurredMs } as const
  await reporting({ ...resolved, id: 'early_lost', outcome: 'lost' }).record()
  api.clock.elapse(60 * 60 * 1000)
  await reporting().record()
  const [exception] = await openExceptions('early_lost')
  assert.ok(exception)
  const retry = () => transact(api.payments.storage, tx => retryException(tx, api.payments, exception.id))
  const early = await retry()
  assert.ok(early.ok && early.value.outcome === 'unknown')
  await reporting(await raised(id, 'early', 100n)).record()
  const late = await retry()
  assert.ok(late.ok && late.value.isBooked)
  assert.deepEqual(await openExceptions('early_lost'), [])
  assert.ok(!(await retry()).ok)

  await reporting({ ...resolved, id: 'early_won', outcome: 'won' }).record()
  const [contradiction] = await openExceptions('early_won')
  const closing = { id: contradiction?.id ?? '', note: 'cleared up with the processor' }
  const close = () => transact(api.payments.storage, tx => closeExceptionByHand(tx, api.payments, closing))
  assert.ok((await close()).ok)
  assert.ok(!(await close()).ok)
  assert.deepEqual(await openExceptions('early_won'), [])
})
