import assert from 'node:assert/strict'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, afterEach, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { accessibilityFaults, launchChromium, missingChromium, newPage } from '../support/browser.ts'
import { waitFor } from '../support/wait-for.ts'
import { answerWithHostileTexts, hostileText } from './hostile-answers.ts'
import { conflictingField, editorToken, playConsole, shopToken, viewerToken } from './played-console.ts'

/** Returns the innermost element that is wider than the page. */
/** Records each change of the page after which it is wider than the window, also for a moment. */
const recordWidths = `(() => {
  window.wide = []
  const record = () => {
    const { scrollWidth } = document.documentElement
    const widest = [...document.querySelectorAll('main *')].findLast(one => one.scrollWidth > innerWidth)
    if (scrollWidth > innerWidth) window.wide.push(scrollWidth + ' px: ' + widest?.outerHTML.slice(0, 300))
  }
  const observer = new MutationObserver(record)
  const begin = () => observer.observe(document, { childList: true, subtree: true })
  document.addEventListener('DOMContentLoaded', begin)
})()`

describe('the console of a cluster in Chromium', { skip: missingChromium }, () => {
  const ends: (() => Promise<void>)[] = []
  const complaints: string[] = []
  const cleanup = { after: (end: () => Promise<void>) => void ends.push(end) }
  let site: Awaited<ReturnType<typeof playConsole>>
  let browser: Browser

  before(async () => {
    browser = await launchChromium()
    ends.push(() => browser.close())
    site = await playConsole(cleanup)
  })
  after(async () => {
    for (const end of ends.reverse()) await end()
  })

  // Pages that stay open would go on asking.
  afterEach(() => Promise.all(browser.contexts().map(context => context.close())))

  async function logIn(token: string): Promise<Page> {
    const page = await newPage(browser, complaints)
    await page.goto(`${site.origin}/console`)
    await page.getByLabel('Token').fill(token)
    await page.getByRole('button', { name: 'Log in' }).click()
    return page
  }

  async function readCounter(page: Page): Promise<void> {
    await page.goto(`${site.origin}/console#/domain?domain=checkout`)
    await page.getByLabel('Entries').fill('user=alice')
    await page.getByRole('button', { name: 'Read' }).click()
    await page.locator('.values').waitFor()
  }

  test('a token is kept only in the memory of the page', async () => {
    const page = await newPage(browser, complaints)
    const addresses: string[] = []
    page.on('request', sent => addresses.push(sent.url()))
    await page.goto(`${site.origin}/console`)
    await page.getByLabel('Token').waitFor()
    assert.deepEqual(await accessibilityFaults(page), [])
    await page.getByLabel('Token').fill('token-of-nobody')
    await page.keyboard.press('Enter')
    await page.getByText('the token is not valid').waitFor()
    await page.getByLabel('Token').fill(editorToken)
    await page.keyboard.press('Enter')
    await page.getByText('No problems').waitFor()
    const stored = await page.evaluate<string>(
      `JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href, history.state])`,
    )
    const state = JSON.stringify(await page.context().storageState({ indexedDB: true }))
    for (const text of [stored, state, ...addresses, ...site.lines]) assert.doesNotMatch(text, /token-of/)
    assert.ok(addresses.some(address => address.includes('/api/v1/domains')))
    await page.reload()
    await page.getByLabel('Token').waitFor()
  })

  test('a viewer gets 403, and no button for changes', async () => {
    const page = await logIn(viewerToken)
    await page.getByText('No problems').waitFor()
    const rights = page.waitForResponse(/api\/v1\/rights/)
    await readCounter(page)
    assert.match(
      await (await rights).text(),
      /"update","resource":"ratelimitconfigs\/counters","allowed":false/,
    )
    const change = { domain: 'checkout', entries: [{ key: 'user', value: 'alice' }] }
    const headers = { authorization: `Bearer ${viewerToken}` }
    assert.equal((await site.post('/counters/reset', change, headers)).status, 403)
    assert.equal(await page.getByRole('button', { name: /Reset|Raise/ }).count(), 0)
    assert.equal(site.changes.length, 0)
  })

  test('a user with rights in one namespace chooses it', async () => {
    const page = await logIn(shopToken)
    await page.getByText('If you have the right in one namespace, choose the namespace above.').waitFor()
    assert.deepEqual(await accessibilityFaults(page), [])
    await page.getByLabel('Namespace').fill('shop')
    await page.keyboard.press('Enter')
    await page.getByText('No problems').waitFor()
    await page.getByRole('link', { name: 'checkout', exact: true }).click()
    await page.getByRole('row', { name: /^user / }).waitFor()
  })

  test('an editor raises a counter, and the log names the user', async () => {
    const page = await logIn(editorToken)
    await page.getByText('No problems').waitFor()
    await readCounter(page)
    await page.getByLabel('Hits', { exact: true }).fill('4')
    await page.getByRole('button', { name: 'Raise …' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Raise' }).click()
    await page.getByText('The hits are granted.').waitFor()
    assert.deepEqual(
      site.changes.map(({ user, by }) => [user, by]),
      [['editor', 4]],
    )
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.getByLabel('Token').waitFor()
  })

  test('an editor takes over fields of another manager; a viewer cannot apply', async () => {
    const openEditor = async (token: string) => {
      const page = await logIn(token)
      await page.getByText('No problems').waitFor()
      const rights = page.waitForResponse(/api\/v1\/rights/)
      await page.getByRole('link', { name: 'Edit shop/checkout in What-if' }).click()
      await page.getByText('The resource is valid.').waitFor()
      await rights
      return page
    }
    const page = await openEditor(editorToken)
    await page.getByRole('button', { name: 'Apply' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText(conflictingField).waitFor()
    await dialog.getByRole('button', { name: 'Take over and apply' }).click()
    await page.getByText('shop/checkout is changed in the cluster.').waitFor()
    const viewed = await openEditor(viewerToken)
    assert.equal(await viewed.getByRole('button', { name: 'Apply' }).count(), 0)
  })

  test('a merchant has its balances in their currencies, and the books their last proof', async () => {
    const page = await logIn(viewerToken)
    await page.getByText('No problems').waitFor()
    await page.getByRole('link', { name: 'Merchants' }).click()
    await page.getByRole('row', { name: /^shop\/cafe .* 491\.65 DKK 0\.05 EUR/ }).waitFor()
    await page.getByText('2 inconsistencies').waitFor()
    await page
      .getByRole('row', { name: 'merchant 1 shop/cafe its balance is 2; its lines make it 1' })
      .waitFor()
    assert.deepEqual(await accessibilityFaults(page), [])
  })

  test('no text of any answer does harm on any page', async () => {
    const page = await newPage(browser, complaints, { viewport: { width: 360, height: 800 } })
    page.on('dialog', () => assert.fail('a script of a text ran'))
    await page.addInitScript(recordWidths)
    await answerWithHostileTexts(page)
    const key = encodeURIComponent(hostileText)
    const places = [
      '',
      `domain?domain=${key}`,
      'what-if',
      `tap?domain=${key}`,
      `streams?key=${key}`,
      'merchants',
    ]
    for (const place of places) {
      await page.goto(`${site.origin}/console#/${place}`)
      for (const shown of ['\\u{202e}gnp.exe\\u{0}', /1,000,\d{3} characters/])
        await page.locator('main').getByText(shown).first().waitFor({ state: 'attached' })
      assert.match(await page.title(), /^[A-Z][a-z-]+ · Tollway$/, place)
      assert.equal(await page.locator('main script, main img, main iframe').count(), 0, place)
      assert.doesNotMatch(await page.locator('main').innerText(), /[\u202E\0]/, place)
      assert.deepEqual(await page.evaluate('window.wide.splice(0, 3)'), [], place)
    }
    await page.goto(`${site.origin}/console#/what-if`)
    await page.getByText('Line 1 has hidden characters that change how it reads: \\u{202e}').waitFor()
  })

  test('a page of another site can neither read, change nor frame anything', async () => {
    const { port } = site
    const attacker = createServer((_, response) =>
      response
        .setHeader('content-type', 'text/html')
        .end(`<!doctype html><title>x</title><iframe src="${site.origin}/console"></iframe>`),
    )
    await new Promise<void>(resolve => attacker.listen(0, '127.0.0.1', resolve))
    try {
      const page = await newPage(browser, [])
      await page.goto(`http://localhost:${(attacker.address() as AddressInfo).port}`)
      await waitFor('the frame to be refused', async () =>
        /^chrome-error:/.test(page.frames()[1]?.url() ?? ''),
      )
      for (const path of ['/api/v1/domains', '/console/main.ts']) {
        const read = `fetch('http://localhost:${port}${path}').then(() => 'read', () => 'blocked')`
        assert.equal(await page.evaluate(read), 'blocked', path)
      }
      const body = `JSON.stringify({ domain: 'checkout', entries: [{ key: 'user', value: 'alice' }] })`
      const url = `http://localhost:${port}/api/v1/counters/reset`
      const before = site.changes.length
      for (const init of [
        `{ method: 'POST', mode: 'no-cors', body: ${body} }`,
        `{ method: 'POST', body: ${body} }`,
      ])
        await page.evaluate(`fetch('${url}', ${init}).catch(() => {})`)
      assert.equal(site.changes.length, before)
    } finally {
      attacker.close()
    }
  })

  test('a name that resolves to the loopback address is rejected', async () => {
    for (const path of ['/console', '/api/v1/domains']) {
      const { promise, resolve } = Promise.withResolvers<number | undefined>()
      const options = { port: site.port, path, headers: { host: `rebound.example:${site.port}` } }
      request(options, response => resolve(response.resume().statusCode)).end()
      assert.equal(await promise, 403, path)
    }
  })

  test('a silent pod and a backend that fails are the first on the pages of counters', async () => {
    const page = await logIn(viewerToken)
    await page.getByText('No problems').waitFor()
    const { pods } = site
    const healthy = pods.pods
    pods.pods = async () => {
      const { items } = await healthy()
      const [silent, failing] = items
      assert.ok(silent && failing)
      return {
        items: [
          { ...silent, isReporting: false, lastReportMsAgo: 11_000 },
          { ...failing, backendProblem: 'ECONNREFUSED' },
        ],
      }
    }
    await page.getByText('It has not reported for 11 s.').waitFor()
    await page.getByText('Its counters in redis fail: ECONNREFUSED').waitFor()
    await page.goto(`${site.origin}/console#/domain?domain=checkout`)
    await page.getByText('Its counters in redis fail: ECONNREFUSED').waitFor()
    pods.pods = healthy
    await page.getByText('2 problems').waitFor({ state: 'detached' })
  })

  test('the page reconnects after a restart of the operator', async () => {
    const page = await logIn(viewerToken)
    await page.getByText('No problems').waitFor()
    await site.stop()
    await page.getByText('The page reconnects automatically.').waitFor()
    await site.start()
    await page.getByText('The page reconnects automatically.').waitFor({ state: 'detached' })
  })
})
