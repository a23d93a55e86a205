import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { missingChromium } from '../support/browser.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import { startReportingOperator, startReportingProcess } from '../support/reporting-operator.ts'
import { missingProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'
import { type OpenConsole, openConsole } from './open-console.ts'
import { editorToken, playConsole } from './played-console.ts'

const connectMs = 30_000

const connects = 'The page reconnects automatically.'

const rules = `
domain: checkout
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 3}}
`

const missing = missingChromium || missingProgram('redis-server')

describe('the console while processes fail', { skip: missing }, () => {
  const ends: (() => Promise<void>)[] = []
  const cleanup = { after: (end: () => Promise<void>) => void ends.push(end) }
  let redis: RedisServer
  let site: OpenConsole
  let page: Page

  before(async () => {
    redis = await startRedis()
    ends.push(() => redis.stop())
    site = await openConsole(['--redis-url', redis.url, '--broker-replicas', '0'])
    ends.push(() => site.close())
    page = await site.newPage()
  })
  after(async () => {
    for (const end of ends.reverse()) await end()
  })

  async function readCounter(origin: string, inPage: Page): Promise<void> {
    await inPage.goto(`${origin}/console#/domain?domain=checkout`)
    await inPage.getByLabel('Entries').fill('user=alice')
    await inPage.getByRole('button', { name: 'Read' }).click()
  }

  // The operator of one machine restarts a process that hangs, so that these processes have none.
  test('a reset names the pod that hangs, and the overview shows it as silent', async t => {
    const operator = await startReportingOperator(cleanup, rules)
    const start = (pod: string) => startReportingProcess(cleanup, operator.port, pod)
    const [, hung] = await Promise.all(['pod-a', 'pod-b'].map(start))
    const { origin } = await playConsole(cleanup, operator.sessions)
    const watched = await site.newPage()
    await watched.goto(`${origin}/console`)
    await watched.getByLabel('Token').fill(editorToken)
    await watched.keyboard.press('Enter')
    await watched.getByRole('row', { name: /pod-b reporting/ }).waitFor()
    await readCounter(origin, watched)
    await watched.locator('.values').waitFor()
    hung?.program.process.kill('SIGSTOP')
    const begin = performance.now()
    await watched.getByRole('button', { name: 'Reset …' }).click()
    await watched.getByRole('dialog').getByRole('button', { name: 'Reset' }).click()
    await watched.getByText('Confirmed by 1 pod. Not confirmed by pod-b.').waitFor()
    await watched.getByText(/It has not reported for \d+ s/).waitFor()
    t.diagnostic(`the hung pod is shown after ${Math.round(performance.now() - begin)} ms`)
    await watched.getByRole('link', { name: 'Overview' }).click()
    await watched.getByRole('row', { name: /pod-b silent for/ }).waitFor()
    hung?.program.process.kill('SIGCONT')
    await watched.getByText('No problems').waitFor({ timeout: connectMs })
    await watched.context().close()
  })

  test('pages of counters say that Redis is away', async t => {
    await page.goto(`${site.origin}/console#/`)
    await page.getByRole('row', { name: /ratelimit-0 reporting redis/ }).waitFor()
    await redis.kill('SIGKILL')
    const begin = performance.now()
    const failing = page.getByText(/Its counters in redis fail/).first()
    await failing.waitFor()
    t.diagnostic(`the overview says it after ${Math.round(performance.now() - begin)} ms`)
    await readCounter(site.origin, page)
    await failing.waitFor()
    await page
      .locator('.card .note')
      .getByText(/redis|backend|ECONN/i)
      .waitFor()
    await redis.restart()
    await failing.waitFor({ state: 'detached', timeout: connectMs })
    // Another process may answer than the one that has reported, and reconnect later.
    await waitFor(
      'the values',
      async () => {
        await page.getByRole('button', { name: 'Read' }).click()
        return page.locator('.values').isVisible()
      },
      connectMs,
    )
  })

  test('the page reconnects by itself after a SIGKILL of the operator', async t => {
    await page.goto(`${site.origin}/console#/`)
    await page.getByRole('img', { name: /^Hits, / }).waitFor()
    await site.tollway.program.end('SIGKILL')
    await page.getByText(connects).waitFor()
    await site.tollway.restart()
    const begin = performance.now()
    await page.getByText(connects).waitFor({ state: 'detached', timeout: connectMs })
    t.diagnostic(`the page is connected ${Math.round(performance.now() - begin)} ms after the start`)
    const called = setInterval(
      () => void site.tollway.ask('checkout', 'path', '/pay/cart').catch(() => {}),
      100,
    )
    try {
      await page.getByRole('img', { name: /^Hits.*allowed [1-9]/ }).waitFor({ timeout: connectMs })
    } finally {
      clearInterval(called)
    }
  })

  test('no script of the page failed', () => {
    assert.deepEqual(
      site.complaints.filter(text => !/^Failed to load resource: net::ERR_/.test(text)),
      [],
    )
  })
})
