import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import fc from 'fast-check'
import {
  type ApiUnderTest,
  openShop,
  payAt,
  sharedApi,
  type TestShop,
} from '../../http/testing/api-under-test.ts'
import type { CardProcessor, ProcessorEvent } from '../../processor/processor.ts'
import { listOpenExceptions } from '../../storage/delivery/processor-exceptions.ts'
import { maxEventsAtOnce, recordEvents } from '../background/record-events.ts'
import { verifyBooks } from '../verify-books.ts'

/** The number of runs of each property. */
const runs = Number(process.env['FC_RUNS'] ?? 300) / 15

let api: ApiUnderTest
let shop: TestShop
before(async () => {
  api = await sharedApi()
  shop = await openShop(api)
})

/** Returns a processor that reports these events, the oldest first, each until it is acknowledged. */
function reporting(events: readonly unknown[]) {
  const acknowledged = new Set<unknown>()
  const idOf = (event: unknown) => (event as ProcessorEvent | null)?.id
  const left = () => events.filter(event => !acknowledged.has(idOf(event))) as ProcessorEvent[]
  const processor: CardProcessor = {
    ...api.payments.processors.test,
    pullEvents: async limit => left().slice(0, limit),
    acknowledge: async ids => {
      for (const id of ids) acknowledged.add(id)
    },
  }
  return { left, record: () => recordEvents(api.payments, processor, true) }
}

async function referenceOf(id: string): Promise<string> {
  const sql = 'SELECT processor_reference AS reference FROM transactions WHERE id = $1'
  const [row] = await api.storage.read(tx => tx.query<{ reference: string }>(sql, [id]))
  return row?.reference ?? ''
}

interface Payment {
  readonly id: string
  readonly reference: string
}

async function capturedPayment(amount: number, owner = shop): Promise<Payment> {
  const { id } = await payAt(api, owner, { amount: BigInt(amount) })
  await change(owner, id, 'captures', amount)
  return { id, reference: await referenceOf(id) }
}

function change({ key }: TestShop, id: string, kind: 'captures' | 'refunds', amount: number) {
  return api.call('POST', `/transactions/${id}/${kind}`, { key, json: { amount } })
}

function raised({ reference }: Payment, dispute: string, amount: bigint): ProcessorEvent {
  const about = { dispute, reference, amount, currency: 'DKK', reason: 'fraudulent' }
  return { kind: 'dispute-raised', id: `${dispute}_raised`, ...about, occurredMs: now(), dueMs: null }
}

function resolved({ reference }: Payment, dispute: string, outcome: 'won' | 'lost'): ProcessorEvent {
  const about = { dispute, reference, outcome, occurredMs: now() }
  return { kind: 'dispute-resolved', id: `${dispute}_${outcome}`, ...about }
}

function fraud({ reference }: Payment, id: string): ProcessorEvent {
  return { kind: 'fraud', id, reference, occurredMs: now(), reason: 1 }
}

const now = () => api.clock.nowMs()

async function exceptionsOf(...ids: readonly string[]) {
  const open = await api.storage.read(tx => listOpenExceptions(tx, 1_000))
  return open.filter(({ event }) => ids.includes(event.id))
}

/** Resolves with what a merchant sees: amounts of transactions, disputes, fraud alerts and the balance. */
async function booksOf({ key, merchantId }: TestShop) {
  const get = async (path: string) => (await api.call('GET', path, { key })).json as never
  const filter = `limit=100&filter[merchantId]=${merchantId}`
  const transactions: readonly Record<string, unknown>[] = await get(
    `/merchants/${merchantId}/transactions?limit=100`,
  )
  const disputes: readonly Record<string, unknown>[] = await get(`/disputes?${filter}`)
  const frauds: readonly unknown[] = await get(`/frauds?${filter}`)
  const lines: readonly { readonly balance: number }[] = await get(`/merchants/${merchantId}/lines?limit=100`)
  return {
    transactions: transactions.map(({ amount, capturedAmount, refundedAmount, disputedAmount }) => ({
      amount,
      capturedAmount,
      refundedAmount,
      disputedAmount,
    })),
    disputes: disputes.map(({ amount, status }) => `${amount} ${status}`).sort(),
    frauds: frauds.length,
    balance: lines.reduce((sum, line) => sum + line.balance, 0),
  }
}

async function assertSound(): Promise<void> {
  assert.deepEqual((await verifyBooks(api.storage)).findings, [])
}

test('a replayed event is booked once, also under another id and to many processes at once', async () => {
  const own = await openShop(api)
  const payment = await capturedPayment(800, own)
  const events = [
    raised(payment, 'replayed', 500n),
    { ...raised(payment, 'replayed', 500n), id: 'replayed_again' },
    fraud(payment, 'replayed_fraud'),
    resolved(payment, 'replayed', 'lost'),
  ]
  for (let turn = 0; turn < 3; turn += 1) {
    await Promise.all(Array.from({ length: 4 }, () => reporting(events).record()))
  }
  const { disputes, frauds, balance } = await booksOf(own)
  // The fee of the capture is 25 + 1.35 % of 800, so 36. The fee of the dispute is 10000.
  assert.deepEqual([disputes, frauds, balance], [['500 lost'], 1, 800 - 36 - 500 - 10_000])
  assert.deepEqual(await exceptionsOf(...events.map(({ id }) => id)), [])
  await assertSound()
})

test('a forged event that contradicts what was booked becomes an exception and changes nothing', async () => {
  const own = await openShop(api)
  const [first, second] = [await capturedPayment(700, own), await capturedPayment(900, own)]
  await reporting([raised(first, 'genuine', 300n), fraud(first, 'genuine_fraud')]).record()
  const before = await booksOf(own)
  const forged = [
    { ...raised(first, 'genuine', 699n), id: 'other_amount' },
    { ...raised(second, 'genuine', 300n), id: 'other_transaction' },
    { ...resolved(second, 'genuine', 'won'), id: 'won_elsewhere' },
    fraud(second, 'genuine_fraud'),
  ]
  const { record, left } = reporting(forged)
  assert.deepEqual(
    (await record()).map(({ outcome }) => outcome),
    forged.map(() => 'refused'),
  )
  assert.deepEqual(left(), [])
  assert.deepEqual(await booksOf(own), before)
  const stored = await exceptionsOf(...forged.map(({ id }) => id))
  assert.deepEqual(
    stored.map(({ reason }) => reason),
    [
      'the books have the dispute genuine with 300 DKK',
      'the books have the dispute genuine on another transaction',
      'the books have the dispute genuine on another transaction',
      'the books have the fraud genuine_fraud on another transaction',
    ],
  )
  await assertSound()
})

const long = 'x'.repeat(10 * 1024 * 1024)

/** Invalid fields of an event, each with the expected reason of the exception. */
const malformed: readonly (readonly [object | null, RegExp])[] = [
  [{ amount: '100' }, /^amount: "100" is not a whole number/],
  [{ amount: 100 }, /^amount: 100 is not a whole number/],
  [{ amount: 1.5 }, /^amount: 1.5 is not a whole number/],
  [{ amount: -1n }, /^amount: -1 is below 1/],
  [{ amount: 0n }, /^amount: 0 is below 1/],
  [{ amount: 2n ** 53n }, /^amount: 9007199254740992 is above 9007199254740991/],
  [{ amount: 10n ** 400n }, /^amount: 1000000/],
  [{ amount: undefined }, /^amount: undefined is not a whole number/],
  [{ currency: 'dkk' }, /^currency: "dkk" is not/],
  [{ reason: long }, /^reason: "xxxx.*" has 10485760 characters; at most 500 are allowed/],
  [{ dispute: long }, /^dispute: .* 200 are allowed/],
  [{ reference: long }, /^reference: .* 200 are allowed/],
  [{ reference: 'a\0b' }, /^reference: .* control character/],
  [{ dispute: '' }, /^dispute: "" is empty/],
  [{ dispute: { toString: null } }, /^dispute: object is not a text/],
  [{ occurredMs: Number.NaN }, /^occurredMs: NaN is not a time/],
  [{ occurredMs: 9e15 }, /^occurredMs: 9000000000000000 is not a time/],
  [{ dueMs: '2026-01-01' }, /^dueMs: "2026-01-01" is not a time/],
  [{ kind: 'chargeback' }, /^kind: "chargeback" is not one of fraud, dispute-raised, dispute-resolved/],
  [{ kind: '__proto__' }, /^kind: "__proto__" is not one of/],
  [{ kind: 'dispute-resolved', outcome: 'open' }, /^outcome: "open" is not one of won, lost/],
  [{ kind: 'fraud', reason: '1' }, /^reason: "1" is not/],
  [{ kind: 'fraud', reason: 99 }, /^reason: 99 is not/],
  [{ id: long }, /^id: .* 200 are allowed/],
  [{ id: 17 }, /^id: 17 is not a text/],
  [null, /^null is not an event/],
]

test('malformed events of 10 MB, of wrong types and of absurd amounts become small exceptions', async () => {
  const own = await openShop(api)
  const payment = await capturedPayment(600, own)
  const before = await booksOf(own)
  const countStored = async () => {
    const open = await api.storage.read(tx => listOpenExceptions(tx, 1_000))
    return open.filter(({ outcome }) => outcome === 'malformed').length
  }
  const storedBefore = await countStored()
  const events = malformed.map(([fields, _], index) =>
    fields === null ? null : { ...raised(payment, 'bad', 1n), id: `malformed_${index}`, ...fields },
  )
  const { record } = reporting([...events, fraud(payment, 'after_the_malformed')])
  const recorded = await record()
  assert.deepEqual(
    recorded.map(({ outcome }) => outcome),
    [...malformed.map(() => 'malformed'), 'recorded'],
  )
  for (const [index, [, reason]] of malformed.entries()) assert.match(recorded[index]?.reason ?? '', reason)
  const stored = storedBefore + malformed.length
  assert.equal(await countStored(), stored)
  const [{ bytes } = { bytes: 0n }] = await api.storage.read(tx =>
    tx.query<{ bytes: bigint }>('SELECT max(length(event::text))::bigint AS bytes FROM processor_exceptions'),
  )
  assert.ok(bytes < 4_000n, `an exception has ${bytes} bytes`)
  // The processor reports events without an id again, because they cannot be acknowledged. They are not
  // stored twice.
  assert.ok((await record()).every(({ isNew }) => !isNew))
  assert.equal(await countStored(), stored)
  assert.deepEqual({ ...(await booksOf(own)), frauds: 0 }, before)
  await assertSound()
})

test('events of unknown payments do not delay others', async () => {
  const own = await openShop(api)
  const payment = await capturedPayment(500, own)
  const strangers = Array.from({ length: 2 * maxEventsAtOnce }, (_, index) =>
    fraud({ id: '', reference: `somebody_else_${index}` }, `stranger_${index}`),
  )
  const { record, left } = reporting([...strangers, fraud(payment, 'behind_strangers')])
  for (let round = 0; left().length > 0 && round < 5; round += 1) await record()
  assert.equal((await booksOf(own)).frauds, 1)
  assert.deepEqual(left(), [])
  assert.deepEqual(await exceptionsOf('stranger_0'), [], 'its cause may be on its way')
  api.clock.elapse(60 * 60 * 1000)
  for (let round = 0; round < 5; round += 1) await record()
  const ids = strangers.map(({ id }) => id)
  assert.deepEqual(new Set((await exceptionsOf(...ids)).map(({ outcome }) => outcome)), new Set(['unknown']))
  assert.equal((await exceptionsOf(...ids)).length, ids.length)
})

test('after an outage of the processor, an event that comes before its cause waits for it', async () => {
  const own = await openShop(api)
  const payment = await capturedPayment(500, own)
  const occurredMs = now() - 2 * 60 * 60 * 1000
  const early = { ...resolved(payment, 'after_an_outage', 'lost'), occurredMs }
  const late = { ...raised(payment, 'after_an_outage', 100n), occurredMs }
  assert.deepEqual(
    (await reporting([early]).record()).map(({ outcome }) => outcome),
    ['waiting'],
  )
  await reporting([late]).record()
  api.clock.elapse(60_000)
  await reporting([]).record()
  assert.deepEqual((await booksOf(own)).disputes, ['100 lost'])
  assert.deepEqual(await exceptionsOf(early.id), [])
})

test('an event from the future waits for its cause no longer than others', async () => {
  const event = { ...fraud({ id: '', reference: 'nobody' }, 'from_the_future'), occurredMs: now() + 1e12 }
  const { record } = reporting([event])
  assert.deepEqual(
    (await record()).map(({ outcome }) => outcome),
    ['waiting'],
  )
  api.clock.elapse(60 * 60 * 1000)
  await record()
  assert.equal((await exceptionsOf('from_the_future')).length, 1)
})

test('events in any order, each twice, between captures give the same books', async () => {
  type Step = (payment: Payment, owner: TestShop) => Promise<unknown>
  const report =
    (eventOf: (payment: Payment) => ProcessorEvent): Step =>
    async payment =>
      reporting([eventOf(payment)]).record()
  let names = 0
  const stepsOf = (name: string): readonly Step[] => [
    (payment, owner) => change(owner, payment.id, 'captures', 3_000),
    (payment, owner) => change(owner, payment.id, 'captures', 2_000),
    ...[1, 2].flatMap(() => [
      report(payment => raised(payment, `${name}_1`, 4_000n)),
      report(payment => resolved(payment, `${name}_1`, 'lost')),
      report(payment => raised(payment, `${name}_2`, 2_500n)),
      report(payment => resolved(payment, `${name}_2`, 'won')),
      report(payment => fraud(payment, `${name}_fraud`)),
    ]),
  ]
  const play = async (orderOf: (steps: readonly Step[]) => readonly Step[]) => {
    names += 1
    const owner = await openShop(api)
    const { id } = await payAt(api, owner, { amount: 6_000n })
    const payment = { id, reference: await referenceOf(id) }
    for (const step of orderOf(stepsOf(`order_${names}`))) await step(payment, owner)
    api.clock.elapse(60_000)
    await reporting([]).record()
    const tooMuch = await change(owner, id, 'refunds', 1_001)
    const rest = await change(owner, id, 'refunds', 1_000)
    return { ...(await booksOf(owner)), refunds: [tooMuch.status, rest.status] }
  }
  const expected = await play(steps => steps)
  assert.deepEqual(expected.disputes, ['2500 won', '4000 lost'])
  assert.deepEqual([expected.frauds, expected.refunds], [1, [400, 201]])
  const order = fc.array(fc.nat(), { minLength: 12, maxLength: 12 })
  await fc.assert(
    fc.asyncProperty(order, async keys => {
      const sorted = (steps: readonly Step[]) =>
        steps
          .map((step, index) => ({ step, key: keys[index] ?? 0 }))
          .toSorted((a, b) => a.key - b.key)
          .map(({ step }) => step)
      assert.deepEqual(await play(sorted), expected)
    }),
    { numRuns: Math.ceil(runs), endOnFailure: true },
  )
  await assertSound()
})
