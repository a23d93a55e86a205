import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import type { ApiEndpoint } from '../../operator/api/endpoints.ts'
import {
  domainListExample,
  merchantListExample,
  resourceListExample,
  ruleListExample,
  streamListExample,
  versionAnswerExample,
} from '../../operator/api/examples.ts'
import type { ResourceList } from '../../operator/api/shapes.ts'
import { accessibilityFaults, launchChromium, missingChromium, newPage } from '../support/browser.ts'
import { type PlayedAnswer, playAnswers } from './played-answers.ts'
import { playConsole, shopToken } from './played-console.ts'

type Resource = ResourceList['items'][number]

const [checkout] = resourceListExample.items
const [domain] = domainListExample.items
const [rule] = ruleListExample.items
const [merchant] = merchantListExample.items
const [stream] = streamListExample.items
assert.ok(checkout && domain && rule && merchant && stream)

const condition = (type: string, reason: string, message: string) => ({
  type,
  status: 'True',
  reason,
  message,
})
const degraded = (message: string) => condition('Degraded', 'BackendUnavailable', message)
const named = (kind: string, name: string, more: readonly ReturnType<typeof condition>[] = []): Resource => ({
  ...{ ...checkout, kind, name },
  conditions: [...checkout.conditions, ...more],
})

/** Returns the page of a list that the parameters name. */
function pageOf<Item>(items: readonly Item[], nameOf: (item: Item) => string, parameters: URLSearchParams) {
  const begin = items.findIndex(item => nameOf(item) === parameters.get('after')) + 1
  const end = begin + Number(parameters.get('limit') ?? 100)
  const last = items[end - 1]
  return { items: items.slice(begin, end), ...(last && end < items.length && { next: nameOf(last) }) }
}

const numbered = (count: number, prefix: string) =>
  Array.from({ length: count }, (_, index) => `${prefix}-${`${index}`.padStart(5, '0')}`)

interface Played {
  readonly resources?: readonly Resource[]
  readonly domains?: readonly string[]
  readonly rules?: readonly string[]
  readonly merchants?: readonly string[]
  readonly streams?: readonly string[]
  /** Answers in place of others. */
  readonly errorOf?: (of: ApiEndpoint, parameters: URLSearchParams) => PlayedAnswer
}

describe('lists of the console in Chromium', { skip: missingChromium }, () => {
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

  async function open(place: string, played: Played): Promise<Page> {
    const { resources = [], domains, rules, merchants, streams, errorOf } = played
    const page = await newPage(browser, complaints)
    await playAnswers(page, (of, parameters) => {
      const error = errorOf?.(of, parameters)
      if (error !== undefined) return error
      if (of.id === 'resources') {
        const some = resources.filter(({ kind }) => kind === parameters.get('kind'))
        return { data: { ...resourceListExample, ...pageOf(some, ({ name }) => name, parameters) } }
      }
      if (of.id === 'domains' && domains) {
        const page = pageOf(domains, name => name, parameters)
        return { data: { ...page, items: page.items.map(name => ({ ...domain, domain: name })) } }
      }
      if (of.id === 'rules' && rules) {
        const page = pageOf(rules, name => name, parameters)
        return {
          data: {
            ...ruleListExample,
            ...page,
            items: page.items.map(name => ({ ...rule, rule: name, path: [name] })),
          },
        }
      }
      if (of.id === 'merchants' && merchants) {
        const page = pageOf(merchants, name => `shop/${name}`, parameters)
        const items = page.items.map(name => ({ ...merchant, namespace: 'shop', name }))
        return { data: { ...merchantListExample, ...page, items } }
      }
      if (of.id === 'streams' && streams) {
        const page = pageOf(streams, key => key, parameters)
        const items = page.items.map(key => ({ ...stream, key, streamId: key }))
        return { data: { ...streamListExample, ...page, items } }
      }
      return { data: of.id === 'domains' ? { items: [domain] } : of.example }
    })
    await page.goto(`${site.origin}/console#/${place}`)
    return page
  }

  test('troubles beside Ready are problems, and the backend of each service has its state', async () => {
    const page = await open('', {
      resources: [
        named('RateLimitConfig', 'checkout'),
        ...['kiosks', 'lobby'].map(name =>
          named('AnimationStreamRoute', name, [degraded('redis: ECONNREFUSED')]),
        ),
        named('AnimationStreamRoute', 'open', [condition('Doubtful', 'OpenOverlap', 'overlapping prefixes')]),
        named('Merchant', 'cafe', [degraded('postgres: ETIMEDOUT')]),
      ],
    })
    await page.locator('header').getByText(versionAnswerExample.version, { exact: true }).waitFor()
    const problems = page.locator('.problems')
    await page.getByRole('heading', { name: '3 problems', exact: true }).waitFor()
    assert.deepEqual(await problems.getByRole('listitem').allInnerTexts(), [
      '2 of AnimationStreamRoute, such as shop/kiosks BackendUnavailable: redis: ECONNREFUSED',
      'Merchant shop/cafe BackendUnavailable: postgres: ETIMEDOUT',
      'AnimationStreamRoute shop/open OpenOverlap: overlapping prefixes',
    ])
    for (const row of [
      /^shop\/kiosks AnimationStreamRoute Ready, Degraded/,
      /^Rate limit service redis answers/,
      /^Brokers streams fails redis: ECONNREFUSED/,
      /^Payments service database fails postgres: ETIMEDOUT/,
    ])
      await page.getByRole('row', { name: row }).waitFor()
    assert.deepEqual(await accessibilityFaults(page), [])
  })

  test('all pages of resources and domains are read, and their rows are shown on demand', async () => {
    const resources = numbered(1_234, 'limit').map(name => named('RateLimitConfig', name))
    const last = {
      ...named('RateLimitConfig', 'm'),
      problems: [{ path: 'spec.domain', message: 'is wrong' }],
    }
    const page = await open('', { resources: [...resources, last], domains: numbered(1_300, 'domain') })
    await page.getByText('RateLimitConfig shop/m spec.domain: is wrong').waitFor()
    const table = page.getByRole('region', { name: 'Resources' })
    await table.getByText('The first 200 of 1,235 are shown.').waitFor()
    await table.getByRole('button', { name: 'Show 200 more' }).click()
    await table.getByText('The first 400 of 1,235 are shown.').waitFor()
    await table.getByRole('row', { name: /^shop\/limit-00399/ }).waitFor()
    await page
      .getByRole('region', { name: 'Domains' })
      .getByText('The first 200 of 1,300 are shown.')
      .waitFor()
  })

  test('a list that is longer than the console reads says so', async () => {
    const resources = numbered(5_100, 'limit').map(name => named('RateLimitConfig', name))
    const page = await open('', { resources, domains: numbered(10, 'domain') })
    await page.getByText('No problems so far: not all resources are read').waitFor()
    await page.getByText('The first 200 of more than 5,000 are shown.').waitFor()
  })

  test('domains and rules beyond the first page can be chosen and are shown', async () => {
    const domains = numbered(1_300, 'domain')
    const page = await open('domain', { domains, rules: numbered(1_100, 'domain-00000.rule') })
    await page.getByRole('combobox', { name: 'Domain' }).selectOption('domain-01299')
    await page.getByText('The first 200 of 1,100 are shown.').waitFor()
    const long = await open('tap', { domains: numbered(5_001, 'domain') })
    await long.getByText('The first 5,000 are listed').waitFor()
  })

  test('merchants and requests of brokers beyond the first page are shown', async () => {
    const merchants = await open('merchants', { merchants: numbered(1_300, 'cafe') })
    await merchants.getByText('The first 200 of 1,300 are shown.').waitFor()
    const streams = await open('streams', { streams: numbered(1_100, 'request') })
    await streams.getByText('The first 200 of 1,100 are shown.').waitFor()
    await streams.getByRole('button', { name: 'Show 200 more' }).click()
    await streams.getByRole('row', { name: /request-00399/ }).waitFor()
  })

  test('What-if offers the resources of all pages', async () => {
    const resources = numbered(1_300, 'limit').map(name => named('RateLimitConfig', name))
    const page = await open('what-if', { resources })
    await page.getByLabel('Resource').selectOption('shop/limit-01299')
  })

  test('the error of each list is shown, and the others stay', async () => {
    const page = await open('', {
      resources: [named('RateLimitConfig', 'checkout')],
      errorOf: (of, parameters) => {
        const kind = parameters.get('kind')
        if (kind === 'Merchant') return error(403, 'forbidden', 'alice may not list merchants')
        if (kind === 'AnimationStreamRoute') return error(503, 'stopping', 'the operator stops')
        return of.id === 'domains'
          ? error(403, 'forbidden', 'alice may not list ratelimitconfigs')
          : undefined
      },
    })
    await page.getByText('Permission denied: alice may not list merchants; alice may not').waitFor()
    await page.getByText('the operator stops').waitFor()
    await page.getByText('No problems so far: not all resources are read').waitFor()
    await page.getByRole('row', { name: /^shop\/checkout RateLimitConfig/ }).waitFor()
    assert.deepEqual(await accessibilityFaults(page), [])
  })

  test('calls are plotted beside the allowed and the rejected ones', async () => {
    const page = await open('', { domains: ['checkout'] })
    await page.getByRole('img', { name: /^Hits, hits\/s: all 21, allowed 20, rejected 1$/ }).waitFor()
  })

  test('rows are sorted by the heading that a person presses', async () => {
    const page = await open('', { domains: ['a', 'b', 'c'] })
    const names = () => page.getByRole('region', { name: 'Domains' }).getByRole('rowheader').allInnerTexts()
    await page.getByRole('row', { name: /^c .* 4 % / }).waitFor()
    const heading = page.getByRole('columnheader', { name: 'Domain', exact: true })
    assert.equal(await heading.getAttribute('aria-sort'), null)
    for (const [direction, order] of [
      ['ascending', ['a', 'b', 'c']],
      ['descending', ['c', 'b', 'a']],
    ] as const) {
      await heading.getByRole('button').press('Enter')
      await page.locator(`th[aria-sort=${direction}]`).waitFor()
      assert.deepEqual(await names(), order)
    }
    assert.deepEqual(await accessibilityFaults(page), [])
    await heading.getByRole('button').press('Enter')
    await page.locator('th[aria-sort]').waitFor({ state: 'detached' })
    await page.setViewportSize({ width: 360, height: 800 })
    await heading.getByRole('button').focus()
    // Only what is seen can be clicked.
    await heading.getByRole('button').click({ trial: true })
  })

  test('a key that is typed as soon as its field appears stays', async () => {
    const page = await open('', { domains: ['checkout'] })
    await page.evaluate(`new MutationObserver((_, observer) => {
      const field = document.querySelector('#entries')
      if (field === null) return
      observer.disconnect()
      field.value = 'user=bob'
      field.dispatchEvent(new Event('input', { bubbles: true }))
    }).observe(document.body, { childList: true, subtree: true })`)
    await page.getByRole('link', { name: 'checkout', exact: true }).click()
    // An answer that is asked for by an effect of the page.
    await page.getByRole('row', { name: /^user / }).waitFor()
    assert.equal(await page.getByLabel('Entries').inputValue(), 'user=bob')
    await page.getByRole('button', { name: 'Read' }).click()
    await page.locator('.values').waitFor()
  })

  test('an id is copied by its button', async () => {
    const page = await open('merchants', { merchants: ['cafe'] })
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.getByText('Ids and links').click()
    const [[name = '', id] = []] = Object.entries(merchant.details)
    await page.getByRole('button', { name: `Copy ${name}` }).click()
    await page.getByText('Copied').waitFor()
    assert.equal(await page.evaluate('navigator.clipboard.readText()'), id)
  })

  test('a user with rights in one namespace has the page of a domain there', async () => {
    const page = await newPage(browser, complaints)
    await page.goto(`${site.origin}/console`)
    await page.getByLabel('Token').fill(shopToken)
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'Domain', exact: true }).click()
    await page
      .getByText('If you have the right in one namespace, choose the namespace above.')
      .first()
      .waitFor()
    await page.getByLabel('Namespace').fill('shop')
    await page.keyboard.press('Enter')
    await page.getByRole('row', { name: /^user / }).waitFor()
    const options = page.getByRole('combobox', { name: 'Domain' }).getByRole('option')
    assert.deepEqual(await options.allInnerTexts(), ['checkout'])
    await page.getByLabel('Entries').fill('user=alice')
    await page.getByRole('button', { name: 'Read' }).click()
    await page.getByRole('button', { name: /^Reset/ }).waitFor()
    await page.goto(`${site.origin}/console#/domain?domain=loans`)
    await page
      .getByText(/Permission denied: shop may not list ratelimitconfigs/)
      .first()
      .waitFor()
  })

  test('the browser logged no error', () => assert.deepEqual(complaints, []))
})

const error = (status: number, code: string, message: string): PlayedAnswer => ({
  status,
  error: { code, message },
})
