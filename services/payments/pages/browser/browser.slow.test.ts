import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { accessibilityFaults, missingChromium, tabTo } from '../../../../test/support/browser.ts'
import type { Locale } from '../../domain/input/request-bodies.ts'
import { openPagesInBrowser, type PagesInBrowser } from '../../testing/browser-under-test.ts'
import { textsFor } from '../texts/texts.ts'

/** The folder for screenshots of all pages, in both widths and both colour schemes; undefined for none. */
const pictures = process.env['PAY_PAGES_PICTURES']

const phone = { width: 320, height: 640 }
const desktop = { width: 1200, height: 800 }
const price = { amount: '124950', currency: 'DKK' }
const approved = '4100000000000001'

describe('payment pages in Chromium', { skip: missingChromium }, () => {
  let pages: PagesInBrowser
  let page: Page
  before(async () => {
    pages = await openPagesInBrowser()
    page = await pages.newPage()
  })
  after(() => pages?.close())

  const open = (parameters: Readonly<Record<string, string>>, inPage: Page = page) =>
    inPage.goto(pages.linkOf(parameters))

  async function newest() {
    const [transaction] = await pages.transactions()
    return transaction ?? assert.fail('there is no transaction')
  }

  for (const locale of ['en', 'da'] as const) {
    test(`a payer pays with the keyboard alone and continues to the shop: ${locale}`, async () => {
      const { receipt, card } = textsFor(locale)
      const redirect = `${pages.shopOrigin}/thanks?order=7`
      await open({ ...price, locale, reference: `order ${locale}`, redirect })
      assert.match(await page.locator('.note').first().innerText(), /127\.0\.0\.1:\d+/)
      await tabTo(page, '#number')
      await page.keyboard.type(approved)
      await page.keyboard.press('Tab')
      await page.keyboard.type('830')
      await page.keyboard.press('Tab')
      await page.keyboard.type('123')
      assert.equal(await page.inputValue('#number'), '4100 0000 0000 0001')
      assert.equal(await page.inputValue('#expiry'), '08 / 30')
      await tabTo(page, 'button.primary')
      assert.match(await page.locator('button.primary').innerText(), /1[.,]249[.,]50/)
      await page.keyboard.press('Enter')
      await page.waitForURL(/outcome/)
      assert.equal(await page.locator('h1').innerText(), receipt.heading)
      const transaction = await newest()
      assert.deepEqual(
        [transaction.amount, transaction.currency, transaction.reference, transaction.error],
        [124950n, 'DKK', `order ${locale}`, null],
      )
      assert.equal(await page.locator('.id').innerText(), transaction.id)
      assert.match(await page.locator('dl').innerText(), /Visa •••• 0001/)
      assert.notEqual(card.title, await page.title())
      await tabTo(page, 'a.primary')
      await page.keyboard.press('Enter')
      await page.waitForURL(`${pages.shopOrigin}/thanks?order=7&transactionId=${transaction.id}`)
    })
  }

  test('the receipt continues to the shop after a while, unless the payer stays', async () => {
    const page = await pages.newPage()
    await page.clock.install()
    for (const stays of [false, true]) {
      await open({ ...price, redirect: `${pages.shopOrigin}/thanks` }, page)
      await pay(page, approved)
      await page.waitForSelector('[data-notice]:not([hidden])')
      if (stays) await page.click('button.link')
      await page.clock.fastForward(10_000)
      if (stays) assert.equal(await page.locator('[data-notice]').isHidden(), true)
      else await page.waitForURL(/thanks\?transactionId=/)
      assert.equal(page.url().includes('/outcome'), stays)
    }
  })

  test('errors are shown while the form is filled in, and nothing is sent', async () => {
    await open(price)
    const errorOf = (name: string) => page.locator(`#${name}-error`).innerText()
    const { errors, formError } = textsFor('en').card
    await page.click('button.primary')
    assert.equal(await errorOf('number'), errors['number-missing'])
    assert.equal(await page.locator('#form-message').innerText(), formError)
    assert.equal(await page.evaluate('document.activeElement.id'), 'number')
    await page.keyboard.type('3782')
    assert.equal(await errorOf('number'), errors['number-scheme'])
    await page.fill('#number', '')
    await page.locator('#number').pressSequentially('4100000000000002')
    await page.keyboard.press('Tab')
    assert.equal(await errorOf('number'), errors['number-wrong'])
    assert.equal(await page.getAttribute('#number', 'aria-invalid'), 'true')
    await page.fill('#number', '')
    await page.locator('#number').pressSequentially(approved)
    assert.equal(await errorOf('number'), '')
    assert.equal(await page.getAttribute('#number', 'aria-invalid'), null)
    await page.locator('#expiry').pressSequentially('0120')
    await page.keyboard.press('Tab')
    assert.equal(await errorOf('expiry'), errors['expiry-past'])
    const before = await pages.transactions()
    await page.fill('#code', '12')
    await page.keyboard.press('Enter')
    assert.equal(await errorOf('code'), errors['code-wrong'])
    assert.equal((await pages.transactions()).length, before.length)
  })

  test('the caret stays where a digit is corrected', async () => {
    await open(price)
    const caret = () => page.evaluate('document.activeElement.selectionStart')
    await page.locator('#number').pressSequentially('410000000000')
    for (const _ of '0000 000') await page.keyboard.press('ArrowLeft')
    await page.keyboard.press('Backspace')
    assert.equal(await page.inputValue('#number'), '4100 0000 000')
    assert.equal(await caret(), 4)
    await page.keyboard.type('7')
    assert.equal(await page.inputValue('#number'), '4100 7000 0000')
    assert.equal(await caret(), 6)
    await page.keyboard.press('Backspace')
    await page.keyboard.press('Backspace')
    assert.equal(await page.inputValue('#number'), '4100 0000 00')
    assert.equal(await caret(), 3)
  })

  test('a decline shows the reason, and another card can be tried', async () => {
    const { declined, declines } = textsFor('da')
    await open({ ...price, locale: 'da' })
    await pay(page, '4100000001007005')
    assert.equal(await page.locator('h1').innerText(), declined.heading)
    assert.equal(await page.locator('.explanation').innerText(), declines[7])
    assert.equal((await newest()).error, 7)
    await page.click('a.primary')
    await pay(page, approved)
    assert.equal((await newest()).error, null)
  })

  test('3-D Secure is attempted, completed, rejected or failed', async () => {
    const rows = [
      ['4100000003001006', null, 'attempt'],
      ['4100000003002004', 'yes', 'full'],
      ['4100000003002004', 'no', 'declined'],
      ['4100000003004000', 'yes', 'declined'],
    ] as const
    for (const [number, answer, expected] of rows) {
      const before = (await pages.transactions()).length
      await open(price)
      await fill(page, number)
      await page.click('button.primary')
      if (answer !== null) {
        await page.waitForSelector('text=Test bank')
        await page.click(`[value=${answer}]`)
      }
      await page.waitForURL(/outcome/)
      if (expected === 'declined') {
        assert.equal(await page.locator('.explanation').innerText(), textsFor('en').declines[31])
        assert.equal((await pages.transactions()).length, before)
      } else assert.equal((await newest()).tds, expected)
    }
  })

  test('at a point of sale the payer enters the amount', async () => {
    await open({ text: 'Counter 2', locale: 'da' })
    await page.selectOption('#currency', 'EUR')
    await page.fill('#amount', 'to')
    await page.keyboard.press('Enter')
    await page.waitForSelector('#amount-error:not(:empty)')
    assert.equal(await page.inputValue('#currency'), 'EUR')
    await page.fill('#amount', '1.250,5')
    await page.keyboard.press('Enter')
    await page.waitForSelector('#number')
    assert.match(await page.locator('.amount').innerText(), /^1\.250,50\s€$/)
    await pay(page, approved)
    assert.deepEqual([(await newest()).amount, (await newest()).currency], [125050n, 'EUR'])
    await page.click('a.secondary')
    assert.equal(await page.inputValue('#amount'), '')
  })

  test('every page works without scripts', async () => {
    const page = await pages.newPage({ javaScriptEnabled: false })
    await open({ currency: 'JPY', locale: 'da' }, page)
    await page.fill('#amount', '1250')
    await page.keyboard.press('Enter')
    await page.fill('#number', '4100 0000 0300 2005')
    await page.fill('#expiry', '8/30')
    await page.fill('#code', '123')
    await page.keyboard.press('Enter')
    await page.waitForSelector('[aria-invalid=true]')
    assert.equal(await page.locator('#number-error').innerText(), textsFor('da').card.errors['number-wrong'])
    assert.deepEqual([await page.inputValue('#number'), await page.inputValue('#code')], ['', ''])
    await fill(page, '4100 0000 0300 2004')
    await page.keyboard.press('Enter')
    await page.click('[value=yes]')
    await page.waitForURL(/outcome/)
    const { amount, currency, tds } = await newest()
    assert.deepEqual([amount, currency, tds], [1250n, 'JPY', 'full'])
  })

  test('two clicks, a reload and going back make one payment', async () => {
    const before = (await pages.transactions()).length
    await open(price)
    await fill(page, approved)
    pages.delayPayments(200)
    await page.dblclick('button.primary')
    await page.waitForSelector('.id')
    pages.delayPayments(0)
    const shown = await page.locator('.id').innerText()
    await page.reload()
    assert.equal(await page.locator('.id').innerText(), shown)
    assert.equal((await pages.transactions()).length, before + 1)
    await page.goBack()
    await page.waitForFunction("document.querySelector('#number')?.value === ''")
    assert.equal(await page.inputValue('#code'), '')

    const impatient = await pages.newPage({ javaScriptEnabled: false })
    await open(price, impatient)
    await fill(impatient, approved)
    pages.delayPayments(200)
    await impatient.dblclick('button.primary')
    // The second click aborts the navigation of the first, which waitForURL would treat as a failure.
    await impatient.waitForSelector('.id')
    pages.delayPayments(0)
    assert.equal((await pages.transactions()).length, before + 2)
  })

  test('every page fits a narrow phone, and axe-core finds no problem in either color scheme', async () => {
    await page.setViewportSize(phone)
    for (const locale of ['en', 'da'] as const) {
      const link = { ...price, ...longTexts, locale, redirect: `${pages.shopOrigin}/thanks` }
      await open({ ...link, amount: 'x' })
      await inspect(page, locale, 'problem')
      await open({ locale })
      await inspect(page, locale, 'amount')
      await page.fill('#amount', 'x')
      await page.keyboard.press('Enter')
      await page.waitForSelector('#amount-error:not(:empty)')
      await inspect(page, locale, 'amount-rejected')
      await open(link)
      await page.click('summary')
      await inspect(page, locale, 'card')
      await page.click('button.primary')
      await inspect(page, locale, 'card-rejected')
      await pay(page, '4100000001008003')
      await inspect(page, locale, 'declined')
      await open(link)
      await fill(page, '4100000003002004')
      await page.click('button.primary')
      await page.waitForSelector('[value=yes]')
      await inspect(page, locale, 'challenge')
      await page.click('[value=yes]')
      await page.waitForURL(/outcome/)
      await page.click('button.link')
      await inspect(page, locale, 'receipt')
    }
  })

  test('the longest amounts stay on one line on a narrow phone', async () => {
    await page.setViewportSize(phone)
    for (const [currency, locale] of [
      ['DKK', 'da'],
      ['DKK', 'en'],
      ['JPY', 'en'],
      ['EUR', 'da'],
    ] as const) {
      await open({ amount: '1000000000000', currency, locale })
      const lines = await page.locator('.amount').evaluate(element => {
        const range = element.ownerDocument.createRange()
        range.selectNodeContents(element)
        return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size
      })
      assert.equal(lines, 1, `${currency} ${locale}`)
      await inspect(page, locale, `long-amount-${currency}`)
    }
  })

  test("a receipt has the time in the payer's time zone", async () => {
    const inTokyo = await pages.newPage({ timezoneId: 'Asia/Tokyo' })
    await open({ ...price, locale: 'en' }, inTokyo)
    await pay(inTokyo, approved)
    await inTokyo.waitForURL(/outcome/)
    const time = inTokyo.locator('time')
    const at = new Date((await time.getAttribute('datetime')) ?? '')
    const hour = new Intl.DateTimeFormat('en-GB', {
      hour: '2-digit',
      minute: '2-digit',
      timeZone: 'Asia/Tokyo',
    })
    const shown = await time.innerText()
    assert.ok(shown.includes(hour.format(at)) && shown.includes('GMT+9'), shown)
    await inTokyo.context().close()
  })

  test('the browser logged no error', () => assert.deepEqual(pages.complaints, []))
})

const longTexts = {
  text: 'Lamp “Aurora” of brass, with a cord of 2 m and averyverylongwordthatcannotbebrokenanywhereatall',
  reference: 'order-2026-0000000000000000000000000000000042',
}

async function fill(page: Page, number: string): Promise<void> {
  await page.fill('#number', number)
  await page.fill('#expiry', '08 / 30')
  await page.fill('#code', '123')
}

async function pay(page: Page, number: string): Promise<void> {
  await fill(page, number)
  await page.click('button.primary')
  await page.waitForURL(/outcome/)
}

async function inspect(page: Page, locale: Locale, name: string): Promise<void> {
  const width = await page.evaluate('document.documentElement.scrollWidth')
  assert.ok(Number(width) <= phone.width, `${name} ${locale} is ${width} pixels wide`)
  // Checks the rest only in English, because other languages differ only in the lengths of texts.
  if (locale === 'en') {
    assert.deepEqual(await accessibilityFaults(page), [], name)
    await page.emulateMedia({ colorScheme: 'dark' })
    assert.deepEqual(await accessibilityFaults(page, ['color-contrast']), [], `${name}, dark`)
    await page.emulateMedia({ colorScheme: 'light' })
  }
  if (pictures !== undefined) await paint(page, join(pictures, `${name}-${locale}`))
}

async function paint(page: Page, path: string): Promise<void> {
  for (const [width, viewport] of Object.entries({ phone, desktop })) {
    await page.setViewportSize(viewport)
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      await page.screenshot({ path: `${path}-${width}-${colorScheme}.png`, fullPage: true })
    }
  }
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize(phone)
}
