import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { hasValidCheckDigit } from '../domain/card.ts'
import { createMemoryAnswers, createMemoryJournal } from '../testing/memory-stores.ts'
import { detectScheme, normaliseNumber, readCard } from './card-number.ts'
import type { AuthorisationAnswer, CardInput, CardProcessor } from './processor.ts'
import { testCards } from './test-cards.ts'
import { createTestProcessor } from './test-processor.ts'

const numRuns = Number(process.env['FC_RUNS'] ?? 300)
const key = new Uint8Array(32).fill(7)
const start = Date.UTC(2026, 0, 1)

function processorAt(nowMs = start) {
  const clock = { nowMs }
  return { clock, processor: createProcessor({ key, now: () => clock.nowMs }) }
}

function createProcessor(options: Pick<Parameters<typeof createTestProcessor>[0], 'key' | 'now'>) {
  const stores = { journal: createMemoryJournal(), answers: createMemoryAnswers() }
  return createTestProcessor({ ...options, ...stores, eventDelayMs: 1_000 })
}

function card(number: string, change: Partial<CardInput> = {}): CardInput {
  return { number, expiryMonth: 8, expiryYear: 2066, code: '123', ...change }
}

const payment = { amount: 300n, currency: 'DKK' }

let operations = 0
/** Returns a new operation id, because a repeated one would get the first answer. */
const nextOperation = () => {
  operations += 1
  return `operation ${operations}`
}

/** Authenticates the payer and authorises, without answering a challenge. */
async function pay(
  processor: CardProcessor,
  input: CardInput,
  operationId = nextOperation(),
): Promise<AuthorisationAnswer> {
  const asked = await processor.authenticate({ ...payment, card: input })
  if (asked.result === 'declined') return { approved: false, error: asked.error, card: null }
  return payWith(processor, asked.authentication, operationId)
}

function payWith(processor: CardProcessor, authentication: string, operationId = nextOperation()) {
  return processor.authorise({ operationId, ...payment, descriptor: 'D', source: { authentication } })
}

function payAgain(processor: CardProcessor, token: string) {
  return processor.authorise({ operationId: nextOperation(), ...payment, descriptor: 'D', source: { token } })
}

function show(answer: AuthorisationAnswer): string {
  return answer.approved ? 'approved' : `declined ${answer.error}`
}

test('each test card has the outcome of its row', async () => {
  const { processor } = processorAt()
  for (const { number, means, declines, declinesRecurring, tds } of testCards) {
    const first = await pay(processor, card(number))
    const insists = { required: 30, failed: 31, full: undefined, attempt: undefined, none: undefined }
    const error = declines ?? insists[tds ?? 'none']
    assert.equal(show(first), error === undefined ? 'approved' : `declined ${error}`, means)
    const second = await payAgain(processor, first.card?.reference.token ?? '')
    const again = declines ?? declinesRecurring ?? (tds === 'required' || tds === 'failed' ? 30 : undefined)
    assert.equal(show(second), again === undefined ? 'approved' : `declined ${again}`, `${means}, recurring`)
    assert.equal(second.approved && second.tds, second.approved ? null : false)
  }
})

test('each test card has a number and a name of its own, and a correct check digit', () => {
  const numbers = testCards.map(({ number }) => number.replaceAll(' ', ''))
  assert.equal(new Set(numbers).size, numbers.length)
  assert.equal(new Set(testCards.map(({ name }) => name)).size, numbers.length)
  const [, ...others] = numbers
  for (const number of others) assert.ok(hasValidCheckDigit(number) && detectScheme(number), number)
})

/** Card inputs, each with the expected scheme or processing error. */
const typed: readonly (readonly [card: CardInput, expected: string | number])[] = [
  [card('1000 0000 0000 0000'), 'visa'],
  [card('4100-0000-0000-0001'), 'visa'],
  [card('5500 0000 0000 0004'), 'mastercard'],
  [card('2221 0000 0000 0009'), 'mastercard'],
  [card('2720 9999 9999 9996'), 'mastercard'],
  [card('2721 0000 0000 0004'), 29],
  [card('3400 0000 0000 009'), 29],
  [card('4100 0000 0000 0002'), 3],
  [card('4100 0000 0000 000'), 29],
  [card('4'), 3],
  [card('4100 0000 0000 000x'), 3],
  [card(''), 17],
  [card('4100 0000 0000 0001', { expiryMonth: null }), 18],
  [card('4100 0000 0000 0001', { expiryYear: null }), 19],
  [card('4100 0000 0000 0001', { code: '' }), 20],
  [card('4100 0000 0000 0001', { code: '12' }), 4],
  [card('4100 0000 0000 0001', { code: '12a' }), 4],
  [card('4100 0000 0000 0001', { expiryMonth: 13 }), 5],
  [card('4100 0000 0000 0001', { expiryMonth: 1.5 }), 5],
  [card('4100 0000 0000 0001', { expiryYear: 166 }), 5],
  [card('4100 0000 0000 0001', { expiryYear: 26, expiryMonth: 1 }), 'visa'],
  [card('4100 0000 0000 0001', { expiryYear: 25, expiryMonth: 12 }), 6],
]

test('a card is parsed, or its first error is returned', () => {
  for (const [input, expected] of typed) {
    const read = readCard(input, start)
    assert.equal('error' in read ? read.error : read.details.scheme, expected, JSON.stringify(input))
  }
})

test('a saved card that has expired is declined', async () => {
  const { processor, clock } = processorAt()
  const { card: known } = await pay(processor, card('4100 0000 0000 0001', { expiryYear: 26 }))
  clock.nowMs = Date.UTC(2026, 8, 1) - 1
  assert.equal(show(await payAgain(processor, known?.reference.token ?? '')), 'approved')
  clock.nowMs += 1
  assert.equal(show(await payAgain(processor, known?.reference.token ?? '')), 'declined 6')
})

test('an invented or changed token is declined', async () => {
  const { processor } = processorAt()
  const { card: known } = await pay(processor, card('4100 0000 0100 7005'))
  const token = known?.reference.token ?? ''
  for (const forged of ['', 'test', token.replace('declined-7', 'visa'), `${token}0`, token.slice(0, -1)]) {
    assert.equal(show(await payAgain(processor, forged)), 'declined 2', forged)
  }
})

test('a repeated operation gets its first answer, whatever has changed since', async () => {
  const { processor, clock } = processorAt()
  const saved = await pay(processor, card('4100 0000 0000 0001', { expiryYear: 26 }))
  const source = { token: saved.card?.reference.token ?? '' }
  const request = { operationId: 'one', ...payment, descriptor: 'D', source }
  const first = await processor.authorise(request)
  clock.nowMs = Date.UTC(2027, 0, 1)
  assert.deepEqual(await processor.authorise(request), first)
  assert.equal(show(await processor.authorise({ ...request, operationId: 'two' })), 'declined 6')
})

test('a cancelled authorisation is void, and a later request for it is declined', async () => {
  const { processor } = processorAt()
  const saved = await pay(processor, card('4100 0000 0000 0001'))
  const source = { token: saved.card?.reference.token ?? '' }
  const request = { operationId: 'one', ...payment, descriptor: 'D', source }
  await processor.authorise(request)
  assert.deepEqual(await processor.cancelAuthorisation(request), { wasApproved: true })
  assert.equal(show(await processor.authorise(request)), 'declined 11')
  const late = { ...request, operationId: 'late' }
  assert.deepEqual(await processor.cancelAuthorisation(late), { wasApproved: false })
  assert.equal(show(await processor.authorise(late)), 'declined 11')
})

test('a fingerprint depends on the number and the key alone', async () => {
  const fingerprintOf = async (processor: CardProcessor, number: string, change: Partial<CardInput> = {}) =>
    (await pay(processor, card(number, change))).card?.reference.fingerprint
  const { processor } = processorAt()
  const first = await fingerprintOf(processor, '4100 0000 0000 0001')
  assert.equal(await fingerprintOf(processorAt().processor, '4100000000000001'), first)
  assert.equal(await fingerprintOf(processor, '4100 0000 0000 0001', { expiryYear: 2070 }), first)
  const other = createProcessor({ key: new Uint8Array(32), now: () => start })
  assert.notEqual(await fingerprintOf(other, '4100 0000 0000 0001'), first)
})

test('3-D Secure is attempted, completed, rejected by the payer or failed at the bank', async () => {
  const { processor } = processorAt()
  const attempted = await pay(processor, card('4100 0000 0300 1006'))
  assert.equal(attempted.approved && attempted.tds, 'attempt')
  for (const [number, confirmed, expected] of [
    ['4100 0000 0300 2004', true, 'approved full'],
    ['4100 0000 0300 3002', true, 'approved full'],
    ['4100 0000 0300 3002', false, 'failed 31'],
    ['4100 0000 0300 4000', true, 'failed 31'],
  ] as const) {
    assert.equal(await payWithChallenge(processor, number, confirmed), expected, number)
  }
  const without = await pay(processor, card('4100 0000 0000 0001'))
  assert.equal(without.approved && without.tds, null)
})

async function payWithChallenge(
  processor: CardProcessor,
  number: string,
  confirmed: boolean,
): Promise<string> {
  const asked = await processor.authenticate({ ...payment, card: card(number) })
  assert.equal(asked.result, 'challenge')
  const reference = 'authentication' in asked ? asked.authentication : ''
  const answer = await processor.answerChallenge(reference, confirmed)
  if (answer.result === 'failed') return `failed ${answer.error}`
  const paid = await payWith(processor, answer.authentication)
  return paid.approved ? `approved ${paid.tds}` : `declined ${paid.error}`
}

test('an authentication is valid for its amount and currency only, and cannot be changed', async () => {
  const { processor } = processorAt()
  const of = async (change: object) => {
    const asked = await processor.authenticate({ ...payment, ...change, card: card('4100 0000 0300 3002') })
    return 'authentication' in asked ? asked.authentication : ''
  }
  for (const change of [{ amount: 299n }, { currency: 'EUR' }]) {
    assert.equal(show(await payWith(processor, await of(change))), 'declined 31')
  }
  const own = await of({})
  assert.equal(show(await payWith(processor, own)), 'declined 30', 'the payer has not confirmed')
  for (const forged of [
    own.replace('_asked_', '_full_'),
    own.replace('tds-required', 'visa'),
    '',
    `${own}0`,
  ]) {
    assert.equal(show(await payWith(processor, forged)), 'declined 2', forged)
    assert.equal((await processor.answerChallenge(forged, true)).result, 'failed')
  }
})

test('a fraud alert is repeated after its payment until it is acknowledged', async () => {
  const { processor, clock } = processorAt()
  const answer = await pay(processor, card('4100 0000 0400 1005'), 'one')
  await pay(processor, card('4100 0000 0400 1005'), 'one')
  assert.deepEqual(await processor.pullEvents(10), [])
  clock.nowMs += 1000
  const events = await processor.pullEvents(10)
  assert.deepEqual(
    events.map(({ kind, reference }) => [kind, reference]),
    [['fraud', answer.approved && answer.reference]],
  )
  assert.deepEqual(await processor.pullEvents(10), events)
  await processor.acknowledge(events.map(({ id }) => id))
  await pay(processor, card('4100 0000 0400 1005'), 'one')
  clock.nowMs += 1000
  assert.deepEqual(await processor.pullEvents(10), [])
})

test('a dispute follows each capture, and its end follows the dispute', async () => {
  for (const [number, expected] of [
    ['4100 0000 0400 2003', ['dispute-raised']],
    ['4100 0000 0400 3001', ['dispute-raised', 'won']],
    ['4100 0000 0400 4009', ['dispute-raised', 'lost']],
  ] as const) {
    const { processor, clock } = processorAt()
    const answer = await pay(processor, card(number))
    const reference = answer.approved ? answer.reference : ''
    const capture = { operationId: 'c', reference, amount: 70n, currency: 'DKK' }
    await processor.capture(capture)
    await processor.capture(capture)
    await processor.refund({ ...capture, operationId: 'r' })
    clock.nowMs += 1000
    const raised = await processor.pullEvents(10)
    assert.deepEqual(
      raised.map(event => 'amount' in event && event.amount),
      [70n],
    )
    clock.nowMs += 1000
    const events = await processor.pullEvents(10)
    assert.deepEqual(
      events.map(event => ('outcome' in event ? event.outcome : event.kind)),
      expected,
    )
    assert.equal(new Set(events.map(event => 'dispute' in event && event.dispute)).size, 1)
  }
})

test('no answer, event or error has a card number or a verification code', async () => {
  const digits = fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 9, maxLength: 9 })
  const numbers = fc.oneof(
    fc.constantFrom(...testCards.map(({ number }) => number)),
    digits.map(middle => withCheckDigit(`410000${middle}`)),
  )
  await fc.assert(
    fc.asyncProperty(numbers, fc.integer({ min: 2020, max: 2070 }), async (number, expiryYear) => {
      const { processor, clock } = processorAt()
      const input = card(number, { expiryYear, code: '987' })
      const asked = await processor.authenticate({ ...payment, card: input })
      const answer = await pay(processor, input)
      const reference = answer.approved ? answer.reference : 'none'
      await processor.capture({ operationId: 'c', reference, ...payment })
      clock.nowMs += 10_000
      const said = textOf([asked, answer, await processor.pullEvents(10)])
      assert.equal(said.includes(normaliseNumber(number)), false)
      // Searches also for the middle digits of the number, and for the code as a separate value.
      assert.equal(said.includes(normaliseNumber(number).slice(6, -1)), false)
      assert.equal(said.includes('"987"'), false)
    }),
    { numRuns },
  )
})

function textOf(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => (typeof inner === 'bigint' ? String(inner) : inner))
}

function withCheckDigit(body: string): string {
  const digit = [...'0123456789'].find(last => hasValidCheckDigit(body + last))
  return `${body}${digit}`
}
