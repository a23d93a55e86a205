import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import type { CounterReading } from '../../operator/ratelimit-queries/pod-sessions.ts'
import { playedReservations } from '../../operator/testing/played-pods.ts'
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

  async function read(page: Page): Promise<void> {
    await page.getByLabel('Entries').fill('user=alice')
    await page.getByRole('button', { name: 'Read' }).click()
    await page.locator('.values').waitFor()
  }

  test('a counter shows what is reserved, on a desk and on a phone, and no change ends it', async () => {
    const first = Array.from({ length: 100 }, (_, index) => ({
      ...{ id: `3kx.mO0ZJ3vT1eVb9q3RkN5yUw.8fJc2nW0Qx6rB1tZsYdL${index}`, amount: 1_000 + index },
      expiresAtMs: Date.now() + 60_000 + index,
    }))
    const nextExpiryMs = first[0]?.expiresAtMs ?? 0
    site.pods.reserved = {
      reservations: { count: 1_234, summed: 1_000, amount: 2_345_678, nextExpiryMs, first },
    }
    const page = await open('domain')
    await read(page)
    await page.locator('.values div', { hasText: /Reserved\s*≥ 2,345,678/ }).waitFor()
    const table = page.getByRole('region', { name: 'Reservations: 1,234' })
    assert.equal(await table.getByRole('rowheader').count(), 20)
    await table.getByText('The first 20 of more than 20 are shown. tollway counters get lists 100.').waitFor()
    assert.match(await table.getByRole('row').nth(1).innerText(), /YdL0.*1,000.*\d{4}-\d\d-\d\d \d\d:/s)
    for (const width of [360, 1_280]) {
      await page.setViewportSize({ width, height: 800 })
      assert.deepEqual(await accessibilityFaults(page), [], `${width} pixels`)
      const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
      assert.ok(overflow <= 0, `${overflow} of ${width} pixels`)
      const isCut =
        "[...document.querySelectorAll('.values > div')].some(one => one.scrollWidth > one.clientWidth)"
      assert.equal(await page.evaluate<boolean>(isCut), false, `${width} pixels`)
    }
    for (const [button, text] of [
      ['Reset …', 'Reset this counter?'],
      ['Raise …', 'Grant 10 more hits?'],
    ] as const) {
      await page.getByRole('button', { name: button }).click()
      const dialog = page.getByRole('dialog', { name: text })
      await dialog.getByText('Not ended: 1,234 reservations.').waitFor()
      await dialog.getByRole('button', { name: 'Cancel' }).click()
    }
  })

  test('a counter shows who has what of a limit that proxies share, on a desk and on a phone', async () => {
    const share = (name: string, pod: string, grantedPerSecond: number) => {
      return { name, pod, wantedPerSecond: grantedPerSecond / 2, grantedPerSecond, expiresInMs: 14_200 }
    }
    const shares: CounterReading['shares'] = {
      ...{ limitPerSecond: 1_000, wantedPerSecond: 1_234, grantedPerSecond: 980, memberCount: 25 },
      members: Array.from({ length: 25 }, (_, index) => share(`10.0.0.${index}`, 'pod-a', 40)),
      pods: [share('id-a', 'pod-a', 600), share('id-b', '', 380)],
      ...{ missing: ['pod-c'], problem: 'READONLY a replica' },
    }
    const page = await open('domain')
    for (const [told, texts] of [
      [
        shares,
        [
          'Proxies: 25',
          'The first 20 of more than 20 are shown. tollway counters get lists 100.',
          'not connected: id-b',
          'The proxies of pod-c are not known.',
          'The parts of the pods could not be read: READONLY a replica.',
          '1,234/s',
        ],
      ],
      [{ ...shares, memberCount: 0, members: [], pods: [] }, ['No proxy reports this bucket.']],
    ] as const) {
      site.pods.reserved = { shares: told }
      await page.getByLabel('Entries').fill('user=alice')
      await page.getByRole('button', { name: 'Read' }).click()
      for (const text of texts) await page.getByText(text).first().waitFor()
      for (const width of [360, 1_280]) {
        await page.setViewportSize({ width, height: 800 })
        assert.deepEqual(await accessibilityFaults(page), [], `${width} pixels`)
        const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
        assert.ok(overflow <= 0, `${overflow} of ${width} pixels`)
      }
    }
    site.pods.reserved = {}
    await page.getByRole('button', { name: 'Read' }).click()
    await page.getByText('Shares of proxies').waitFor({ state: 'detached' })
  })

  test('a counter shows what is held, and that nothing is reserved or known of it', async () => {
    const page = await open('domain')
    site.pods.algorithm = 'Concurrency'
    for (const [reserved, text] of [
      [{ reservations: playedReservations }, 'Reservations: 2'],
      [{ reservations: { count: 0, summed: 0, amount: 0, first: [] } }, 'Nothing is reserved.'],
      [
        { reservationsProblem: 'NOPERM no permissions' },
        'The reservations could not be read: NOPERM no permissions.',
      ],
      [{}, undefined],
    ] as const) {
      site.pods.reserved = reserved
      await read(page)
      await page.locator('.values', { hasText: 'Held' }).waitFor()
      if (text !== undefined) await page.getByText(text).first().waitFor()
      else await page.getByText('Reserv').waitFor({ state: 'detached' })
      await page.setViewportSize({ width: 360, height: 800 })
    }
    for (const [button, title, done] of [
      ['Reset', 'Release all holds?', 'The counter is 0.'],
      ['Raise', 'Release 10 held hits?', 'The hits are released.'],
    ] as const) {
      await page.getByRole('button', { name: `${button} …` }).click()
      const dialog = page.getByRole('dialog', { name: title })
      await dialog.getByRole('button', { name: button }).click()
      await page.getByText(done).waitFor()
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
