/**
 * `node test/console/pictures.ts` takes the pictures of docs/tasks/console.md in a real browser, of a real
 * operator with live calls, and writes them to docs/pictures. `--all FOLDER` takes each page in both schemes,
 * at 360 and at 1,600 pixels, and in the states with little content.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { Page } from 'playwright-core'
import { root } from '../support/tollway.ts'
import { checkout, openConsole } from './open-console.ts'
import { type PageState, pageStates, showState } from './page-states.ts'

interface Picture {
  readonly name: string
  readonly place: Place
  readonly colorScheme: 'light' | 'dark'
  readonly width?: number
  /** Only what the window shows. */
  readonly isCut?: boolean
  /** The page has this state, and not the content of the operator. */
  readonly state?: PageState
}

type Place = keyof typeof places

const places = {
  overview: '',
  domain: 'domain?domain=checkout&rule=checkout.user',
  'what-if': 'what-if?namespace=shop&name=checkout',
  tap: 'tap?domain=checkout',
  streams: 'streams',
  merchants: 'merchants',
}

/** What a person does on a page before its picture is taken. */
const actions: Partial<Record<Place, (page: Page) => Promise<void>>> = {
  domain: async page => {
    await page.getByRole('button', { name: 'user=alice' }).click()
    await page.getByLabel('Descriptors, one a line').fill('path=/pay/cart,plan=free')
    await page.getByRole('button', { name: 'Try' }).click()
  },
  'what-if': page => page.getByLabel('RateLimitConfig in YAML').fill(checkout.replace('1000', '5')),
  streams: page => page.getByRole('link', { name: 'Preview of s utterance-1' }).click(),
}

const desktopWidth = 1280
const documented: readonly Picture[] = [
  { name: 'overview', place: 'overview', colorScheme: 'light' },
  { name: 'domain-dark', place: 'domain', colorScheme: 'dark' },
  { name: 'what-if', place: 'what-if', colorScheme: 'light' },
  { name: 'tap', place: 'tap', colorScheme: 'dark', isCut: true },
  { name: 'streams', place: 'streams', colorScheme: 'light' },
  { name: 'merchants', place: 'merchants', colorScheme: 'light' },
  { name: 'overview-phone', place: 'overview', colorScheme: 'dark', width: 360, isCut: true },
]
const windows = [360, 1600].flatMap(width =>
  (['light', 'dark'] as const).map(colorScheme => ({ width, colorScheme })),
)
const every = (Object.keys(places) as Place[]).flatMap((place): Picture[] => [
  ...windows.map(shown => ({
    ...{ name: `${place}-${shown.width}-${shown.colorScheme}`, place, ...shown },
    isCut: place === 'tap',
  })),
  ...pageStates.flatMap(state =>
    [windows[0], windows[3]].flatMap(shown =>
      shown === undefined ? [] : [{ name: `${place}-${state}-${shown.width}`, place, state, ...shown }],
    ),
  ),
])

const watchedMs = 15_000
const callMs = 300
/** Other programs may use the same cores. */
const patientMs = 60_000

const { values } = parseArgs({ options: { all: { type: 'string' } } })
const folder = values.all ?? join(root, 'docs/pictures')
const pictures = values.all === undefined ? documented : every
mkdirSync(folder, { recursive: true })
const site = await openConsole(['--payments'])
const ended = new AbortController()
for (const id of ['utterance-1', 'utterance-2']) await site.stream(id)
const calls = keepCalling()
try {
  for (const place of Object.keys(places))
    await takeTogether(pictures.filter(picture => picture.place === place))
} finally {
  ended.abort()
  await calls
  await site.close()
}

async function keepCalling(): Promise<void> {
  while (!ended.signal.aborted) {
    await site.call()
    await pause(callMs)
  }
}

/** The pages are open for a while, so that their plots have points. */
async function takeTogether(some: readonly Picture[]): Promise<void> {
  const pages: Page[] = []
  for (const picture of some) pages.push(await open(picture))
  await pause(watchedMs)
  for (const [index, { name, isCut = false }] of some.entries()) {
    await pages[index]?.screenshot({ path: join(folder, `${name}.png`), fullPage: !isCut })
    await pages[index]?.context().close()
  }
}

async function open({ place, colorScheme, width = desktopWidth, state }: Picture): Promise<Page> {
  const page = await site.newPage({ colorScheme, viewport: { width, height: 800 } })
  page.setDefaultTimeout(patientMs)
  if (state !== undefined) await showState(page, state)
  const [path = ''] = state === undefined ? [places[place]] : places[place].split('?')
  await page.goto(`${site.origin}/console#/${path}`)
  await page.locator('main h1').waitFor()
  if (state === undefined) await actions[place]?.(page)
  return page
}
