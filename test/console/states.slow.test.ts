import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { accessibilityFaults, launchChromium, missingChromium, newPage } from '../support/browser.ts'
import { type PageState, showState } from './page-states.ts'
import { playConsole } from './played-console.ts'

const places = ['', 'domain', 'what-if', 'tap', 'streams', 'merchants'] as const

/** The text of every page, or of each of them. */
const texts: Readonly<Record<PageState, string | Readonly<Record<(typeof places)[number], string>>>> = {
  loading: 'Loading …',
  error: 'no rate limit process is connected to this operator',
  forbidden: 'Permission denied: system:serviceaccount:shop:alice may not list',
  empty: {
    '': 'There are no resources. Apply one',
    domain: 'No domain is in force. Apply a RateLimitConfig, or write one.',
    'what-if': 'No call of the domain is recorded yet. Send some, and replay again.',
    tap: 'No domain is in force. Apply a RateLimitConfig, or write one.',
    streams: 'Requests are shown here while producers send them.',
    merchants: 'There is no Merchant. Apply one',
  },
  quiet: {
    '': 'Check that the pods run and can reach the feed of the operator.',
    domain: 'No key yet, counted for',
    'what-if': 'No call of the domain is recorded yet. Send some, and replay again.',
    tap: 'Decisions are shown with the next calls.',
    streams: 'Requests are shown here while producers send them.',
    merchants: 'There is no Merchant. Apply one',
  },
}

const windows = [
  { width: 360, colorScheme: 'light' },
  { width: 1600, colorScheme: 'dark' },
  { width: 360, colorScheme: 'dark' },
  { width: 1600, colorScheme: 'light' },
] as const

describe('pages without content', { skip: missingChromium }, () => {
  const ends: (() => Promise<void>)[] = []
  const cleanup = { after: (end: () => Promise<void>) => void ends.push(end) }
  const complaints: string[] = []
  let origin: string
  let browser: Browser

  before(async () => {
    browser = await launchChromium()
    ends.push(() => browser.close())
    origin = (await playConsole(cleanup)).origin
  })
  after(async () => {
    for (const end of ends.reverse()) await end()
  })

  for (const [index, [state, expected]] of Object.entries(texts).entries())
    test(`each page says what it is, and what to do: ${state}`, async () => {
      const { width, colorScheme } = windows[index % windows.length] ?? windows[0]
      const page = await newPage(browser, complaints, { viewport: { width, height: 800 }, colorScheme })
      await showState(page, state as PageState)
      for (const place of places) {
        const text = typeof expected === 'string' ? expected : expected[place]
        await page.goto(`${origin}/console#/${place}`)
        await page.locator('main').getByText(text).first().waitFor()
        assert.deepEqual(await accessibilityFaults(page), [], place)
        const shownWidth = await page.evaluate<number>('document.documentElement.scrollWidth')
        assert.ok(shownWidth <= width, `${place} has ${shownWidth} px`)
      }
      await page.context().close()
    })

  test('the browser logged no error', () => assert.deepEqual(complaints, []))
})
