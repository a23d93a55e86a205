import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import type { Merchant } from '../domain/merchant.ts'
import {
  type AttemptsPerMinute,
  checkoutUnderTest,
  pageSecret,
  pagesUnderTest,
  someMerchant,
} from '../testing/checkout-under-test.ts'
import { assets } from './browser/assets.ts'
import { PageTokens } from './page-token.ts'

const cardNumber = '4100000000000100'
const securityCode = '739'
const card = { number: cardNumber, expiry: '08 / 66', code: securityCode }

function open(change: Partial<Merchant> = {}, attempts?: AttemptsPerMinute) {
  const merchant = someMerchant(change)
  const checkout = checkoutUnderTest([merchant])
  const { app, errors, clock } = pagesUnderTest(checkout, attempts)
  const addressOf = (parameters: Readonly<Record<string, string>> = {}, page = '') =>
    `/pay/${page}?${new URLSearchParams({ key: merchant.key, ...parameters })}`
  const get = (url: string) => app.inject({ url })
  const post = (url: string, form: Readonly<Record<string, string>>, headers: Record<string, string> = {}) =>
    app.inject({
      method: 'POST',
      url,
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
      payload: new URLSearchParams(form).toString(),
    })
  /** Loads the page of a link and submits the card form. */
  async function pay(url: string, fields: Readonly<Record<string, string>> = card) {
    return post(url, { token: hiddenIn((await get(url)).body, 'token'), ...fields })
  }
  return { merchant, checkout, app, errors, clock, addressOf, get, post, pay }
}

function hiddenIn(page: string, name: string): string {
  return new RegExp(`name="${name}" value="([^"]+)"`).exec(page)?.[1] ?? ''
}

const titleOf = (page: string) => /<h1>([^<]*)</.exec(page)?.[1]

/** Returns the target of a redirection, as a browser resolves it. */
function targetOf({ headers }: { headers: Record<string, unknown> }, from: string): string {
  const { pathname, search } = new URL(String(headers['location']), `http://host${from}`)
  return pathname + search
}

const amount = { amount: '1250', currency: 'EUR' }

/** Matches the statement that nothing was charged, which a page may make only if that is certain. */
const claims = /Nothing was charged|Der er ikke trukket penge/

const faulty = `
  400 key=                              → This link is not complete
  404 key=nobody                        → This shop is not known
  400 amount=12x                        → The amount is not valid
  400 amount=0                          → The amount is not valid
  400 amount=-5                         → The amount is not valid
  400 amount=1.5                        → The amount is not valid
  400 amount=1e400                      → The amount is not valid
  400 amount=4100000000000001           → The amount is not valid
  400 amount=5&currency=XYZ             → The currency does not exist
  400 amount=5&currency=NOK             → This currency is not accepted
  400 currency=NOK                      → This currency is not accepted
  400 amount=5&redirect=javascript:x    → This link leads nowhere
  400 amount=5&redirect=//evil.example  → This link leads nowhere
  400 amount=5&redirect=https://a@b.example → This link leads nowhere
  400 amount=5&amount=6                 → This link cannot be read
  400 text=%00                          → This link cannot be read
  400 amount=%ZZ                        → This link cannot be read
  400 amount=12x&locale=da              → Beløbet er ikke gyldigt
  404 key=nobody&locale=da_DK           → Butikken findes ikke
`
test('a wrong link gets a page that explains what to do', async () => {
  const { merchant, get } = open()
  for (const row of faulty.trim().split('\n')) {
    const [left = '', title] = row.trim().split(/ +→ /)
    const [status = '', query = ''] = left.trim().split(' ')
    const withKey = query.startsWith('key=') ? query : `key=${merchant.key}&${query}`
    const answer = await get(`/pay/?${withKey}`)
    assert.equal(`${answer.statusCode} ${titleOf(answer.body)}`, `${status} ${title}`, query)
    assert.doesNotMatch(answer.body, claims)
    assert.equal(answer.body.includes('4100000000000001'), false)
  }
  const closed = open({ closedMs: 1 })
  const answer = await closed.get(closed.addressOf(amount))
  assert.equal(`${answer.statusCode} ${titleOf(answer.body)}`, '404 This shop takes no payments any more')
})

test('the page of a live merchant without a processor is closed, without a form for a card', async () => {
  const live = open({ test: false })
  for (const [locale, title] of [
    ['en', 'This shop cannot take payments yet'],
    ['da', 'Butikken kan ikke modtage betalinger endnu'],
  ]) {
    const link = live.addressOf({ ...amount, locale: locale ?? '' })
    for (const answer of [await live.get(link), await live.post(link, { ...card })]) {
      assert.equal(`${answer.statusCode} ${titleOf(answer.body)}`, `404 ${title}`)
      assert.doesNotMatch(answer.body, /<input/)
    }
  }
})

test('the text of a link is shown, and escaped', async () => {
  const { addressOf, get } = open({ name: '<i>Shop</i>' })
  const hostile = `"><script>alert('1')</script>`
  const { body } = await get(addressOf({ ...amount, text: hostile, reference: hostile, locale: hostile }))
  assert.equal(body.includes('<script>alert'), false)
  assert.equal(body.split('&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;').length, 3)
  assert.match(body, /&lt;i&gt;Shop&lt;\/i&gt;/)
  assert.match(body, /€12\.50/)
})

test('every answer has the content security policy, and only assets are cached', async () => {
  const { addressOf, get, post, pay } = open()
  const link = addressOf(amount)
  const paid = await pay(link)
  const answers = [
    await get(link),
    await get(addressOf()),
    paid,
    await get(targetOf(paid, link)),
    await post(link, { token: 'x'.repeat(40_000) }),
    await post(link, {}, { 'content-type': 'application/json' }),
    await get('/pay/?key=%ZZ'),
    await get('/pay/no/such/page'),
    await get(addressOf({}, 'confirm')),
  ]
  assert.deepEqual(
    answers.map(({ statusCode }) => statusCode),
    [200, 200, 303, 200, 413, 415, 400, 404, 303],
  )
  for (const { headers, body } of answers) {
    const policy = String(headers['content-security-policy'])
    assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';.*frame-ancestors 'none'/)
    assert.equal(headers['cache-control'], 'no-store')
    assert.equal(headers['referrer-policy'], 'no-referrer')
    assert.equal(headers['x-content-type-options'], 'nosniff')
    assert.doesNotMatch(body, /<script(?! defer src=")|<style|style="|onclick/)
  }
  for (const { path, type } of Object.values(assets)) {
    const { statusCode, headers } = await get(`/pay/${path}`)
    assert.equal(statusCode, 200)
    assert.equal(headers['content-type'], type)
    assert.match(String(headers['cache-control']), /immutable/)
    assert.ok((await get('/pay/no/such/page')).body.includes(`../../${path}`) || path.endsWith('js'))
  }
})

test('the path without its slash is redirected', async () => {
  const { merchant, get } = open()
  const query = `?key=${merchant.key}&amount=5`
  const answer = await get(`/pay${query}`)
  assert.equal(targetOf(answer, `/pay${query}`), `/pay/${query}`)
})

test('one form pays once, however often it is sent', async () => {
  const { checkout, addressOf, get, post } = open()
  const link = addressOf({ ...amount, reference: 'order 7' })
  const form = { token: hiddenIn((await get(link)).body, 'token'), ...card }
  let enter = () => {}
  const entered = new Promise<void>(resolve => {
    enter = resolve
  })
  let release = () => {}
  const released = new Promise<void>(resolve => {
    release = resolve
  })
  checkout.meet = () => {
    enter()
    return released
  }
  const first = post(link, form)
  await entered
  const second = post(link, form)
  release()
  const answers = [await first, await second, await post(link, { ...form, number: '4100 0000 0000 0001' })]
  const receipts = await Promise.all(answers.map(answer => get(targetOf(answer, link))))
  const numbers = receipts.map(({ body }) => /class="id">([^<]+)</.exec(body)?.[1])
  assert.deepEqual(new Set(numbers), new Set(checkout.paid.map(({ id }) => id)))
  assert.equal(checkout.paid.length, 1)
  const [{ request } = assert.fail()] = checkout.paid
  assert.deepEqual([request.amount, request.currency, request.reference], [1250n, 'EUR', 'order 7'])
})

test('a form pays only the link that it shows, and for a limited time', async () => {
  const { checkout, clock, addressOf, get, post } = open()
  const link = addressOf(amount)
  const token = hiddenIn((await get(link)).body, 'token')
  for (const other of [
    { ...amount, amount: '1' },
    { ...amount, currency: 'JPY' },
    { ...amount, text: 'x' },
  ]) {
    const answer = await post(addressOf(other), { token, ...card })
    assert.equal(answer.statusCode, 400)
    assert.match(answer.body, /please enter the card once more/)
  }
  clock.aheadMs = 61 * 60_000
  assert.equal((await post(link, { token, ...card })).statusCode, 400)
  clock.aheadMs = 0
  const danish = addressOf({ ...amount, locale: 'da' })
  assert.equal((await post(danish, { token, ...card })).statusCode, 303)
  assert.equal(checkout.paid.length, 1)
})

test('a form that another site sends is rejected', async () => {
  const { checkout, addressOf, get, post } = open()
  const link = addressOf(amount)
  const form = { token: hiddenIn((await get(link)).body, 'token'), ...card }
  const answer = await post(link, form, { 'sec-fetch-site': 'cross-site' })
  assert.equal(`${answer.statusCode} ${titleOf(answer.body)}`, '403 This came from another site')
  assert.equal(checkout.paid.length, 0)
})

test('an invalid card is neither sent to the processor nor repeated in the page', async () => {
  const { checkout, addressOf, pay } = open()
  const answer = await pay(addressOf(amount), {
    number: '4100 0000 0000 0101',
    expiry: '01 / 20',
    code: '73',
  })
  assert.equal(answer.statusCode, 422)
  for (const text of ['There is a mistake in the card number.', 'This card has expired.', 'The code has 3']) {
    assert.ok(answer.body.includes(text), text)
  }
  assert.equal(answer.body.match(/aria-invalid="true"/g)?.length, 3)
  assert.equal(answer.body.match(/ autofocus/g)?.length, 1)
  assert.equal(answer.body.includes('0101'), false)
  assert.equal(checkout.paid.length, 0)
})

test('no answer, address or error contains the number or the code of a card', async () => {
  const { checkout, errors, addressOf, get, post, pay } = open()
  const seen: string[] = []
  const shop = { ...amount, redirect: 'https://shop.example/thanks' }
  const link = addressOf(shop)
  const note = async (answer: Awaited<ReturnType<typeof get>>) => {
    seen.push(answer.body, JSON.stringify(answer.headers))
    if (answer.statusCode === 303) await note(await get(targetOf(answer, link)))
    return answer
  }
  await note(await pay(link))
  const numbers = ['4100000001007005', '4100000003002004', '4100000003004000', '1000000000000000']
  for (const number of numbers) {
    const { body } = await note(await pay(link, { ...card, number }))
    const ticket = hiddenIn(body, 'ticket')
    if (ticket !== '') await note(await post(addressOf(shop, 'confirm'), { ticket, answer: 'yes' }))
  }
  await note(await pay(link, { ...card, code: `${securityCode}1` }))
  await note(await post(addressOf({}, 'amount'), { amount: cardNumber, currency: 'EUR' }))
  checkout.meet = () => Promise.reject(new Error('the network is down'))
  await note(await pay(link))
  const everything = [...seen, ...errors.map(String)].join('\n')
  for (const number of [cardNumber, ...numbers]) {
    assert.equal(everything.includes(number), false, number)
  }
  // Searches for the code as a separate word, because any token can contain the same three digits.
  assert.equal(new RegExp(`\\b${securityCode}\\b`).test(everything), false)
})

test('if the outcome is unknown, the payer can check again and pays once', async () => {
  const { checkout, errors, addressOf, get, post, pay } = open()
  const link = addressOf(amount)
  checkout.meet = () => Promise.reject(new Error('the network is down'))
  const unsure = await pay(link)
  assert.equal(`${unsure.statusCode} ${titleOf(unsure.body)}`, '503 We do not know yet')
  assert.match(String(errors[0]), /the network is down/)
  checkout.meet = async () => {}
  const ticket = hiddenIn(unsure.body, 'ticket')
  const confirm = addressOf(amount, 'confirm')
  const answers = [
    await post(confirm, { ticket, answer: 'again' }),
    await post(confirm, { ticket, answer: 'again' }),
  ]
  for (const answer of answers) {
    assert.equal(titleOf((await get(targetOf(answer, confirm))).body), 'Payment complete')
  }
  assert.equal(checkout.paid.length, 1)
})

test('a repeated form during a database outage does not claim that nothing was charged', async () => {
  const { checkout, addressOf, get, post } = open()
  const link = addressOf(amount)
  const form = { token: hiddenIn((await get(link)).body, 'token'), ...card }
  assert.equal((await post(link, form)).statusCode, 303)
  const { find } = checkout
  checkout.find = () => Promise.reject(new Error('the database is away'))
  const unsure = await post(link, form)
  assert.equal(`${unsure.statusCode} ${titleOf(unsure.body)}`, '503 We do not know yet')
  checkout.find = find
  const looked = await post(addressOf(amount, 'confirm'), {
    ticket: hiddenIn(unsure.body, 'ticket'),
    answer: 'again',
  })
  assert.equal(titleOf((await get(targetOf(looked, link))).body), 'Payment complete')
  assert.equal(checkout.paid.length, 1)
})

test('the outcome can be checked while it is kept, and the page of an unpaid one says so', async () => {
  const { checkout, clock, addressOf, get, post, pay } = open()
  const link = addressOf(amount)
  const confirm = addressOf(amount, 'confirm')
  checkout.meet = () => Promise.reject(new Error('the network is down'))
  const [first, second] = [await pay(link), await pay(link)]
  checkout.meet = async () => {}
  clock.aheadMs = 16 * 60_000
  const paid = await post(confirm, { ticket: hiddenIn(first.body, 'ticket'), answer: 'again' })
  assert.equal(titleOf((await get(targetOf(paid, link))).body), 'Payment complete')
  // As if the sweep had cancelled the other attempt meanwhile.
  checkout.find = async () => ({ kind: 'none' })
  const none = await post(confirm, { ticket: hiddenIn(second.body, 'ticket'), answer: 'again' })
  assert.equal(titleOf(none.body), 'No payment was made')
  assert.equal(checkout.paid.length, 1)
})

test('a payer whom the bank challenges can continue at another process without the card', async () => {
  const first = open()
  const other = pagesUnderTest(first.checkout)
  const link = first.addressOf(amount)
  const { authenticate } = first.checkout
  const asked = await first.pay(link, { ...card, number: '4100000003003002' })
  assert.equal(titleOf(asked.body), 'Confirm the payment')
  first.checkout.authenticate = () => Promise.reject(new Error('the card is needed again'))
  const answer = await other.app.inject({
    method: 'POST',
    url: first.addressOf(amount, 'confirm'),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    payload: new URLSearchParams({ ticket: hiddenIn(asked.body, 'ticket'), answer: 'yes' }).toString(),
  })
  assert.equal(titleOf((await first.get(targetOf(answer, link))).body), 'Payment complete')
  assert.equal(first.checkout.paid.length, 1)
  first.checkout.authenticate = authenticate
})

test('the data in the browser contain no card, even decrypted', async () => {
  const { checkout, addressOf, merchant, pay } = open()
  const link = addressOf(amount)
  const tokens = new PageTokens({ secrets: () => [pageSecret], nowMs: Date.now, randomBytes })
  const opened = (page: string, name: string) => {
    const bound = [merchant.id, 'EUR', '1250', null, null, null]
    const found = tokens.decrypt({ name, maxAgeMs: 60_000 }, JSON.stringify(bound), hiddenIn(page, 'ticket'))
    assert.ok(found, `no ${name} ticket`)
    return JSON.stringify(found)
  }
  const number = '4100000003002004'
  const kept = [opened((await pay(link, { ...card, number })).body, 'challenge')]
  checkout.meet = () => Promise.reject(new Error('the network is down'))
  kept.push(opened((await pay(link)).body, 'look'))
  for (const text of kept) {
    for (const secret of [number, cardNumber, number.slice(6, -1), cardNumber.slice(4, -4)]) {
      assert.equal(text.includes(secret), false, secret)
    }
    assert.doesNotMatch(text, new RegExp(`\\b${securityCode}\\b`))
  }
})

test('a token or an outcome that is changed, too old or of another payment is rejected', async () => {
  const { clock, addressOf, get, post, pay } = open()
  const link = addressOf(amount)
  const asked = await pay(link, { ...card, number: '4100000003002004' })
  const ticket = hiddenIn(asked.body, 'ticket')
  const confirm = addressOf(amount, 'confirm')
  const wrong = [
    await post(addressOf({ ...amount, amount: '1' }, 'confirm'), { ticket, answer: 'yes' }),
    await post(confirm, { ticket: `${ticket.startsWith('A') ? 'B' : 'A'}${ticket.slice(1)}`, answer: 'yes' }),
    await post(confirm, { ticket, answer: 'perhaps' }),
    await post(confirm, {}),
  ]
  clock.aheadMs = 16 * 60_000
  wrong.push(await post(confirm, { ticket, answer: 'yes' }))
  for (const { statusCode, body } of wrong) {
    assert.equal(`${statusCode} ${titleOf(body)}`, '400 This page was open for too long')
  }
  const outcome = targetOf(await pay(link), link)
  assert.equal((await get(outcome)).statusCode, 200)
  clock.aheadMs += 25 * 60 * 60_000
  for (const address of [outcome, outcome.replace('amount=1250', 'amount=9'), addressOf(amount, 'outcome')]) {
    const { statusCode, body } = await get(address)
    assert.equal(`${statusCode} ${titleOf(body)}`, '404 This receipt is no longer shown')
  }
})

test('the point of sale turns the entered amount into a link', async () => {
  const { addressOf, get, post } = open()
  const link = addressOf({ text: 'Counter' }, 'amount')
  const answer = await post(link, { amount: '12,50', currency: 'EUR' })
  const target = targetOf(answer, link)
  assert.match(target, /^\/pay\/\?key=.*&currency=EUR&amount=1250&text=Counter&pos=yes$/)
  assert.match((await get(target)).body, /Change the amount/)
  for (const [form, text] of [
    [{ amount: '12.555', currency: 'EUR' }, 'The amount has too many decimals'],
    [
      { amount: '12.5', currency: 'JPY' },
      'This currency has no decimals. Enter a whole amount, such as 1250.',
    ],
    [{ amount: '0', currency: 'EUR' }, 'Enter an amount above zero'],
    [{ amount: '12', currency: 'NOK' }, 'Choose a currency from the list'],
    [{ currency: 'EUR' }, 'Enter an amount above zero'],
  ] as const) {
    const { statusCode, body } = await post(link, form)
    assert.equal(statusCode, 422)
    assert.ok(body.includes(text), text)
  }
})

test('an internal error is reported, and the page does not mention a charge', async () => {
  const { checkout, errors, addressOf, get } = open()
  checkout.findMerchant = () => Promise.reject(new Error('a defect'))
  const { statusCode, body } = await get(addressOf({ locale: 'da' }))
  assert.equal(`${statusCode} ${titleOf(body)}`, '500 Der opstod en fejl')
  assert.match(String(errors[0]), /a defect/)
  assert.doesNotMatch(body, claims)
})

test('attempts to pay are limited by address and by merchant, in both languages', async () => {
  const { addressOf, get, post, clock, checkout } = open({}, { perAddress: 2, perMerchant: 5 })
  const attempt = async (from: string, fields: Readonly<Record<string, string>> = card, locale = 'en') => {
    const link = addressOf({ ...amount, locale })
    const token = hiddenIn((await get(link)).body, 'token')
    return post(link, { token, ...fields }, { 'x-forwarded-for': from })
  }
  const mistyped = { ...card, code: '1' }
  const steps: readonly (readonly [from: string, fields: typeof card, status: number])[] = [
    ['203.0.113.1', mistyped, 422],
    ['203.0.113.1', card, 303],
    ['203.0.113.1', mistyped, 422],
    ['203.0.113.1', card, 303],
    ['203.0.113.1', card, 429],
    ['203.0.113.2', card, 303],
    ['203.0.113.3', card, 303],
    ['203.0.113.4', card, 303],
    ['203.0.113.5', card, 429],
    ['203.0.113.1', mistyped, 422],
  ]
  for (const [index, [from, fields, status]] of steps.entries()) {
    assert.equal((await attempt(from, fields)).statusCode, status, `step ${index}`)
  }
  assert.equal(checkout.paid.length, 5)
  const table = [
    ['en', '30', 'Too many attempts', /This attempt was not made\. Please wait a minute/],
    ['da', '30', 'For mange forsøg', /Dette forsøg blev ikke gennemført\. Vent et minut/],
  ] as const
  for (const [locale, seconds, title, text] of table) {
    const { statusCode, headers, body } = await attempt('203.0.113.1', card, locale)
    assert.deepEqual([statusCode, headers['retry-after'], titleOf(body)], [429, seconds, title])
    assert.match(body, text)
    assert.match(body, /<a class="primary" href="\.\/\?key=/)
    assert.doesNotMatch(body, new RegExp(cardNumber))
  }
  clock.aheadMs += 30_000
  assert.equal((await attempt('203.0.113.1')).statusCode, 303)
})

test('the answer to a challenge does not count as another attempt', async () => {
  const { addressOf, post, pay } = open({}, { perAddress: 1, perMerchant: 1 })
  const link = addressOf(amount)
  const challenged = await pay(link, { ...card, number: '4100000003002004' })
  const ticket = hiddenIn(challenged.body, 'ticket')
  const answer = await post(addressOf(amount, 'confirm'), { ticket, answer: 'yes' })
  assert.equal(answer.statusCode, 303)
  assert.equal((await pay(link)).statusCode, 429)
})
