import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { launchChromium, missingChromium, newPage } from '../support/browser.ts'
import { startTollway, type Tollway } from '../support/tollway.ts'

const manifest = `
apiVersion: tollway.dev/v1alpha1
kind: RateLimitConfig
metadata: {name: checkout, namespace: shop}
spec:
  domain: checkout
  descriptors:
    - {key: user, rateLimit: {unit: hour, requestsPerUnit: 3}}
`

describe('the console in Chromium', { skip: missingChromium }, () => {
  const ends: (() => Promise<void>)[] = []
  const complaints: string[] = []
  let tollway: Tollway
  let page: Page
  let origin = ''

  before(async () => {
    const cleanup = { after: (end: () => Promise<void>) => void ends.push(end) }
    const [browser, started] = await Promise.all([
      launchChromium(),
      startTollway(cleanup, { 'checkout.yaml': manifest }),
    ])
    ends.push(() => browser.close())
    tollway = started
    origin = tollway.status().addresses['operator'] ?? ''
    page = await newPage(browser, complaints)
  })
  after(async () => {
    for (const end of ends.reverse()) await end()
    assert.deepEqual(complaints, [])
  })

  test('the welcome of the operator has its address', () => {
    assert.match(tollway.program.output(), new RegExp(`console +${origin}/console\\n`))
  })

  test('a call is on the page within 1.5 s', async () => {
    await page.goto(`${origin}/console`)
    await page.getByText('No problems').waitFor()
    const calls = page.getByRole('img', { name: /^Calls/ })
    await page.getByRole('img', { name: /^Calls.*allowed 0/ }).waitFor()
    const begin = performance.now()
    assert.equal(await tollway.ask('checkout', 'user', 'alice'), 200)
    await page.getByRole('img', { name: /^Calls.*allowed 1/ }).waitFor({ timeout: 1_500 })
    assert.ok(performance.now() - begin < 1_500, (await calls.getAttribute('aria-label')) ?? '')
  })

  test('a counter is read, and reset after a confirmation', async () => {
    for (const expected of [200, 200, 429])
      assert.equal(await tollway.ask('checkout', 'user', 'alice'), expected)
    await page.getByRole('link', { name: 'checkout' }).click()
    await page.getByLabel('Entries').fill('user=alice')
    await page.getByRole('button', { name: 'Read' }).click()
    await page.getByText('checkout.user', { exact: true }).first().waitFor()
    const left = page.locator('.values div', { hasText: 'Left' })
    assert.match(await left.innerText(), /0$/)
    await page.getByRole('button', { name: 'Reset' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Reset' }).click()
    await page.getByText('The counter is 0. Confirmed by 1 pod.').waitFor()
    assert.match(await left.innerText(), /3$/)
    assert.equal(await tollway.ask('checkout', 'user', 'alice'), 200)
  })
})
