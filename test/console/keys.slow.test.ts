import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { accessibilityFaults, launchChromium, missingChromium, newPage } from '../support/browser.ts'
import { editorToken, playConsole } from './played-console.ts'

describe('keys of counters in Chromium', { skip: missingChromium }, () => {
  const ends: (() => Promise<void>)[] = []
  const cleanup = { after: (end: () => Promise<void>) => void ends.push(end) }
  const complaints: string[] = []
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
  afterEach(() => Promise.all(browser.contexts().map(context => context.close())))

  async function open(place: string): Promise<Page> {
    const page = await newPage(browser, complaints)
    await page.goto(`${site.origin}/console`)
    await page.getByLabel('Token').fill(editorToken)
    await page.keyboard.press('Enter')
    await page.getByText('No problems').waitFor()
    await page.goto(`${site.origin}/console#/${place}?domain=checkout`)
    return page
  }

  const playKeys = (values: readonly string[], hashed: boolean) => {
    site.pods.top = async () => ({
      ...{ missingAtMost: 0, sinceMs: 1_000, missing: [], hashed },
      keys: values.map(value => ({ entries: [{ key: 'user', value }], count: 3, error: 0 })),
    })
  }

  test('a click on a top key reads and resets the counter of exactly this key', async () => {
    const values = ['alice ', 'a,b\\', 'a\nb']
    playKeys(values, false)
    const page = await open('domain')
    for (const [index, value] of values.entries()) {
      const read = page.waitForRequest(/api\/v1\/counters\?/)
      await page.locator('td button.link, th button.link').nth(index).click()
      const sent = new URL((await read).url()).searchParams.get('descriptor')
      assert.equal(sent, `user=${value}`)
      const reset = page.waitForRequest(/counters\/reset/)
      await page.getByRole('button', { name: 'Reset …' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Reset' }).click()
      assert.deepEqual((await reset).postDataJSON().entries, [{ key: 'user', value }])
      await page.getByText('The counter is 0.').waitFor()
    }
  })

  test('a hashed value is not a link to a counter, and the page names the setting', async () => {
    playKeys(['5f2c3a'], true)
    const page = await open('domain')
    await page.getByRole('rowheader', { name: 'user=5f2c3a' }).waitFor()
    await page.getByText('a hash is not a key').waitFor()
    assert.equal(await page.getByRole('button', { name: 'user=5f2c3a' }).count(), 0)
    assert.deepEqual(await accessibilityFaults(page), [])
    site.pods.tap = async function* (_, signal) {
      yield { decisions: [], skipped: 0, hashed: true }
      await new Promise(resolve => signal.addEventListener('abort', resolve))
    }
    await page.goto(`${site.origin}/console#/tap?domain=checkout`)
    await page.getByText('a hash is not a key').waitFor()
  })

  test('the browser logged no error', () => assert.deepEqual(complaints, []))
})
