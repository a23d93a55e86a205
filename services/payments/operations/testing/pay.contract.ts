import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { accept } from '../../domain/rejections.ts'
import {
  type ApiUnderTest,
  merchantInput,
  openShop,
  payAt,
  sharedApi,
  type TestShop,
} from '../../http/testing/api-under-test.ts'
import type { CardProcessor } from '../../processor/processor.ts'
import { testCards } from '../../processor/test-cards.ts'
import { insertMerchant } from '../../storage/tables/merchants.ts'
import { someMerchant } from '../../storage/testing/payments-under-test.ts'
import type { Payments } from '../operation.ts'
import { answerChallenge, authenticatePayer, findPayment, pay } from '../transactions/pay.ts'
import { type CardPayment, payByCard } from './pay-under-test.ts'

let api: ApiUnderTest
let shop: TestShop
let attempts = 0
before(async () => {
  api = await sharedApi()
  shop = await openShop(api)
})

function requestWith(number: string, more: Partial<CardPayment> = {}): CardPayment {
  attempts += 1
  return {
    merchantKey: shop.publicKey,
    input: { currency: 'DKK', amount: 500n, descriptor: null, custom: null },
    reference: 'order 17',
    card: { number, expiryMonth: 12, expiryYear: 2030, code: '123' },
    attempt: `attempt-${attempts}-with-some-random-characters`,
    ...more,
  }
}

/** Returns the outcome of a payment whose payer confirms every challenge. */
async function outcomeOf(number: string, confirmed = true, more: Partial<CardPayment> = {}): Promise<string> {
  const { card, ...payment } = requestWith(number, more)
  let asked = await authenticatePayer(api.payments, { ...payment, card })
  if (asked.ok && asked.value.kind === 'challenge') {
    const { authentication } = asked.value
    const { merchantKey } = payment
    const answer = await answerChallenge(api.payments, { merchantKey, authentication, confirmed })
    if (!answer.ok) return `challenge failed ${answer.rejection.processingError?.code}`
    asked = accept({ kind: 'ready', ...answer.value })
  }
  const made = asked.ok
    ? await pay(api.payments, { ...payment, authentication: asked.value.authentication })
    : asked
  if (!made.ok) return `rejected ${made.rejection.processingError?.code ?? made.rejection.code}`
  const { error, tds } = made.value
  return error === null ? `approved ${tds ?? 'without 3-D Secure'}` : `declined ${error}`
}

test('each test card has its outcome', async () => {
  for (const { number, name, declines, tds } of testCards) {
    const expected =
      declines !== undefined
        ? `declined ${declines}`
        : tds === 'failed'
          ? 'challenge failed 31'
          : `approved ${tds === 'required' ? 'full' : (tds ?? 'without 3-D Secure')}`
    assert.equal(await outcomeOf(number), expected, name)
  }
  assert.equal(await outcomeOf('4100 0000 0300 2004', false), 'challenge failed 31')
})

test('an invalid payment is rejected with its processing error', async () => {
  assert.equal(await outcomeOf('4100 0000 0000 0002'), 'rejected 3')
  assert.equal(await outcomeOf(''), 'rejected 17')
  const visa = '4100 0000 0000 0001'
  assert.equal(await outcomeOf(visa, true, { merchantKey: 'nobody' }), 'rejected 26')
  assert.equal(await outcomeOf(visa, true, { merchantKey: shop.merchantId }), 'rejected 26')
  const input = { currency: 'CHF', amount: 500n, descriptor: null, custom: null }
  assert.equal(await outcomeOf(visa, true, { input }), 'rejected 1')
})

test('without a processor no live merchant can be created or paid', async () => {
  const { test: _, ...input } = merchantInput
  for (const json of [input, { ...input, test: false }]) {
    const made = await api.call('POST', '/merchants', { key: shop.key, json })
    const [fault] = made.json as { field: string; code: string; message: string }[]
    assert.deepEqual([made.status, fault?.field, fault?.code], [400, 'test', 'unsupported'])
    assert.match(fault?.message ?? '', /no card processor is configured/)
  }
  const live = { ...someMerchant(), test: false }
  await api.storage.transaction(tx => insertMerchant(tx, live))
  assert.equal(await outcomeOf('4100 0000 0000 0001', true, { merchantKey: live.key }), 'rejected 27')
})

test('a repeated or simultaneous attempt is one payment', async () => {
  const request = requestWith('4100 0000 0000 0001')
  const outcomes = await Promise.all(Array.from({ length: 10 }, () => payByCard(api.payments, request)))
  const made = [...outcomes, await payByCard(api.payments, request)].flatMap(outcome => {
    if (!outcome.ok) {
      assert.equal(outcome.rejection.code, 'idempotency_in_progress')
      return []
    }
    return [outcome.value.id]
  })
  assert.equal(new Set(made).size, 1)
  const other = await payByCard(api.payments, { ...request, input: { ...request.input, amount: 501n } })
  assert.ok(!other.ok && other.rejection.code === 'idempotency_mismatch')
})

test('an authorisation without an answer is requested again with the same name', async () => {
  const { test: processor } = api.payments.processors
  const names: string[] = []
  let answersToLose = 2
  const losing: CardProcessor = {
    ...processor,
    async authorise(request) {
      names.push(request.operationId)
      const answer = await processor.authorise(request)
      answersToLose -= 1
      if (answersToLose >= 0) throw new Error('the answer was lost')
      return answer
    },
  }
  const payments: Payments = { ...api.payments, processors: { test: losing, live: null } }
  const outcome = await payByCard(payments, requestWith('4100 0000 0000 0001'))
  assert.ok(outcome.ok)
  assert.deepEqual(names, [outcome.value.id, outcome.value.id, outcome.value.id])

  // All answers of the processor are lost. After the lease, a repeated request continues this one.
  names.length = 0
  answersToLose = 3
  const request = requestWith('4100 0000 0000 0001')
  await assert.rejects(payByCard(payments, request), { code: 'commit-unknown' })
  const waiting = await payByCard(payments, request)
  assert.ok(!waiting.ok && waiting.rejection.code === 'idempotency_in_progress')
  api.clock.elapse(60_000)
  const found = await payByCard(payments, request)
  assert.ok(found.ok)
  assert.deepEqual(new Set(names), new Set([found.value.id]))
})

test('the outcome of a payment is found by its attempt, without the card', async () => {
  const { card, ...payment } = requestWith('4100 0000 0000 0001')
  const find = () => findPayment(api.payments, payment)
  assert.deepEqual(await find(), accept({ kind: 'unknown' }))
  const ready = await authenticatePayer(api.payments, { ...payment, card })
  assert.deepEqual(await find(), accept({ kind: 'unknown' }), 'an authentication authorises nothing')
  assert.ok(ready.ok)
  const { authentication } = ready.value
  const { test: processor } = api.payments.processors
  const away = { ...processor, authorise: () => Promise.reject(new Error('away')) }
  const without: Payments = { ...api.payments, processors: { test: away, live: null } }
  await assert.rejects(pay(without, { ...payment, authentication }))
  const running = await find()
  assert.ok(!running.ok && running.rejection.code === 'idempotency_in_progress')
  api.clock.elapse(60_000)
  assert.deepEqual(await find(), accept({ kind: 'resumable' }))
  const made = await pay(api.payments, { ...payment, authentication })
  assert.ok(made.ok)
  assert.deepEqual(await find(), made)
})

const canaries = ['4100 0000 0000 0001', '5500 0000 0000 0004', '4100 0000 0100 7005', '4100 0000 0100 3004']
const canaryCode = '739'

test('card numbers and codes are in no log, table or answer', async () => {
  const answers: string[] = []
  for (const number of [...canaries, '4100 0000 0000 0002']) {
    for (const code of [canaryCode, `${canaryCode}${canaryCode}`]) {
      const request = requestWith(number, { card: { number, expiryMonth: 12, expiryYear: 2031, code } })
      const outcome = await payByCard(api.payments, request)
      answers.push(JSON.stringify(outcome, (_, value) => (typeof value === 'bigint' ? Number(value) : value)))
    }
    // Requests with the card number in a field in which somebody could enter it by mistake.
    const digits = number.replaceAll(' ', '')
    const { key, merchantId } = shop
    const transaction = await payAt(api, shop)
    const wrongs = [
      ['POST', `/transactions/${digits}/captures`, { json: { amount: 1 } }],
      ['POST', `/transactions/${transaction.id}/captures`, { json: { amount: digits, [digits]: number } }],
      [
        'POST',
        `/merchants/${merchantId}/transactions`,
        { json: { cardId: digits, currency: digits, amount: 1 } },
      ],
      ['POST', `/merchants/${merchantId}/users`, { form: `email=${digits}` }],
      ['GET', `/frauds?limit=1&filter[merchantId]=${digits}`, {}],
      ['GET', '/me', { headers: { 'x-request-id': digits, 'x-card': digits } }],
      [
        'POST',
        '/merchants',
        { body: `{"number": ${digits}`, headers: { 'content-type': 'application/json' } },
      ],
    ] as const
    for (const [method, path, request] of wrongs) {
      answers.push((await api.call(method, path, { key, ...request })).text)
    }
  }
  await api.settle()
  const said = `${answers.join('\n')}\n${api.logged()}\n${await dump()}`
  for (const number of canaries) {
    for (const spelling of [number, number.replaceAll(' ', ''), number.replaceAll(' ', '-')]) {
      assert.ok(!said.includes(spelling), spelling)
    }
  }
  assert.doesNotMatch(said, new RegExp(`"code":"?${canaryCode}`))
  assert.doesNotMatch(said, new RegExp(`\\b${canaryCode}${canaryCode}\\b`))
})

async function dump(): Promise<string> {
  return api.storage.transaction(async tx => {
    const tables = await tx.query<{ name: string }>(
      "SELECT table_name::text AS name FROM information_schema.tables WHERE table_schema = 'public'",
    )
    const rows: string[] = []
    for (const { name } of tables) {
      const found = await tx.query<{ row: string }>(`SELECT t::text AS row FROM ${name} t`)
      rows.push(...found.map(({ row }) => row))
    }
    return rows.join('\n')
  })
}
