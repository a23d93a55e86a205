import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { QueryError } from '../../operator/pods/query-error.ts'
import { defaultWhatIfTiming } from '../../operator/ratelimit-queries/what-if.ts'
import { accessibilityFaults, launchChromium, missingChromium, newPage } from '../support/browser.ts'
import { waitFor } from '../support/wait-for.ts'
import { editorToken, playConsole } from './played-console.ts'

/** Deadlines of the page pass when the test says so: `elapse(ms)` in the page. */
const playedDeadlines = `
const deadlines = []
AbortSignal.timeout = ms => {
  const controller = new AbortController()
  deadlines.push({ ms, controller })
  return controller.signal
}
window.elapse = elapsedMs => {
  for (const { ms, controller } of deadlines)
    if (ms <= elapsedMs) controller.abort(new DOMException('signal timed out', 'TimeoutError'))
}`

describe('What-if in Chromium', { skip: missingChromium }, () => {
  const ends: (() => Promise<void>)[] = []
  const cleanup = { after: (end: () => Promise<void>) => void ends.push(end) }
  const complaints: string[] = []
  let site: Awaited<ReturnType<typeof playConsole>>
  let played: (typeof site)['pods']['whatIf']
  let browser: Browser

  before(async () => {
    browser = await launchChromium()
    ends.push(() => browser.close())
    site = await playConsole(cleanup)
    played = site.pods.whatIf
  })
  after(async () => {
    for (const end of ends.reverse()) await end()
  })
  afterEach(async () => {
    site.pods.whatIf = played
    site.pods.problem = undefined
    await Promise.all(browser.contexts().map(context => context.close()))
  })

  async function openEditor(): Promise<Page> {
    const page = await newPage(browser, complaints)
    await page.addInitScript(playedDeadlines)
    await page.goto(`${site.origin}/console`)
    await page.getByLabel('Token').fill(editorToken)
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByRole('link', { name: 'Edit shop/checkout in What-if' }).click()
    await page.getByLabel('RateLimitConfig in YAML').waitFor()
    return page
  }

  /** Holds each replay until the returned function is called. */
  function holdReplays() {
    const held = Promise.withResolvers<void>()
    const states = { running: 0, cancelled: 0 }
    site.pods.whatIf = async function* (of, signal) {
      states.running += 1
      const aborted = new Promise<void>(resolve => signal.addEventListener('abort', () => resolve()))
      await Promise.race([held.promise, aborted])
      if (signal.aborted) states.cancelled += 1
      else yield* played.call(site.pods, of, signal)
    }
    return { states, release: () => held.resolve() }
  }

  test('a replay may take as long as the operator allows, and its age is shown', async () => {
    const { states, release } = holdReplays()
    const page = await openEditor()
    await page.getByText('Replaying the recorded calls …').waitFor()
    await page
      .locator('.running')
      .getByText(/^[1-9]\d* s$/)
      .waitFor()
    assert.deepEqual(await accessibilityFaults(page), [])
    await waitFor('the replay', () => states.running === 1)
    await page.evaluate(`elapse(${defaultWhatIfTiming.deadlineMs})`)
    release()
    await page.getByRole('row', { name: /^checkout\.user/ }).waitFor()
    await page.getByText('The resource is valid.').waitFor()
  })

  test('a replay is cancelled, also at the pods, and repeated', async () => {
    const { states, release } = holdReplays()
    const page = await openEditor()
    await waitFor('the replay', () => states.running === 1)
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.getByText('The replay is cancelled.').waitFor()
    await waitFor('the end of the replay', () => states.cancelled === 1)
    assert.equal(await page.getByRole('button', { name: 'Apply' }).isEnabled(), true)
    release()
    await page.getByRole('button', { name: 'Replay again' }).click()
    await page.getByRole('row', { name: /^checkout\.user/ }).waitFor()
  })

  for (const [problem, shown] of [
    [
      new QueryError('no-pods', 'no rate limit process reports its decisions to an operator'),
      'no rate limit process',
    ],
    [
      new QueryError('switched-off', 'DECISION_RECORDING_BYTES of the rate limit processes is 0'),
      'Start the rate limit service with DECISION_RECORDING_BYTES=16777216',
    ],
    [new QueryError('deadline', 'no process answered'), 'no process answered'],
  ] as const)
    test(`a valid resource can be applied without a replay: ${problem.code}`, async () => {
      site.pods.problem = problem
      const page = await openEditor()
      await page.locator('main').getByText(shown).waitFor()
      await page.getByText('The resource is valid.').waitFor()
      assert.deepEqual(await accessibilityFaults(page), [])
      const apply = page.getByRole('button', { name: 'Apply' })
      await apply.click()
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
      const editor = page.getByLabel('RateLimitConfig in YAML')
      await editor.fill((await editor.inputValue()).replace('unit: minute', 'unit: minuet'))
      await page.getByText(/"minuet" is not one of/).waitFor()
      assert.equal(await apply.isDisabled(), true)
    })

  test('mistakes and warnings are those of validate: claims, merge keys, doubtful settings', async () => {
    const page = await openEditor()
    await page.getByText('The resource is valid.').waitFor()
    const editor = page.getByLabel('RateLimitConfig in YAML')
    const text = await editor.inputValue()
    await editor.fill(text.replace('domain: checkout', 'domain: loans'))
    // The edited resource gets the domain if it is older.
    await page.getByText('warning: spec.domain: "loans" belongs to bank/loans, unless').waitFor()
    assert.equal(await page.getByRole('button', { name: 'Apply' }).isDisabled(), false)
    await editor.fill(
      text.replace('domain: checkout', 'domain: loans').replace('name: checkout', 'name: rival'),
    )
    await page.getByText('spec.domain: "loans" belongs to bank/loans, which is older').waitFor()
    assert.equal(await page.getByRole('button', { name: 'Apply' }).isDisabled(), true)
    const merged =
      '- {key: user, limits: [&a {name: n, unit: hour, requestsPerUnit: 5}, {<<: *a, unit: day}]}'
    await editor.fill(text.replace(/- \{key: user.*/, merged))
    await page.getByText('The resource is valid.').waitFor()
    await page
      .getByText(/^Line \d+ warning: spec\.descriptors\[0\]\.limits\[1\]\.name: the limits share/)
      .waitFor()
    site.pods.problem = new QueryError('no-pods', 'no process')
    await page.getByRole('button', { name: 'Replay again' }).click()
    await page.getByText('no process').waitFor()
    assert.deepEqual(await accessibilityFaults(page), [])
    await page.getByRole('button', { name: 'Apply' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText(/^warning: spec\.descriptors\[0\]\.limits\[1\]\.name/).waitFor()
  })

  test('the text is copied', async () => {
    const page = await openEditor()
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    const text = await page.getByLabel('RateLimitConfig in YAML').inputValue()
    await page.getByRole('button', { name: 'Copy' }).click()
    await page.getByText('Copied.').waitFor()
    assert.equal(await page.evaluate('navigator.clipboard.readText()'), text)
  })

  test('a text that the browser does not copy stays, with a note', async () => {
    const page = await openEditor()
    await page.evaluate("navigator.clipboard.writeText = () => Promise.reject(new Error('denied'))")
    await page.getByRole('button', { name: 'Copy' }).click()
    await page.getByText('The browser does not allow it: select the text and copy it.').waitFor()
  })

  test('the browser logged no error', () => assert.deepEqual(complaints, []))
})
