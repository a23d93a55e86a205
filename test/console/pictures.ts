/**
 * `node test/console/pictures.ts [FOLDER]` takes the pictures of docs/tasks/console.md in a real
 * browser, of a real operator with live calls, and writes them to docs/pictures, or to FOLDER.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Page } from 'playwright-core'
import { root } from '../support/tollway.ts'
import { openConsole } from './open-console.ts'

interface Picture {
  readonly name: string
  readonly place: string
  readonly colorScheme: 'light' | 'dark'
  readonly width?: number
}

const pictures: readonly Picture[] = [
  { name: 'overview', place: '', colorScheme: 'light' },
  { name: 'domain-dark', place: 'domain?domain=checkout&rule=checkout.user', colorScheme: 'dark' },
  { name: 'what-if', place: 'what-if', colorScheme: 'light' },
  { name: 'tap', place: 'tap', colorScheme: 'dark' },
  { name: 'streams', place: 'streams', colorScheme: 'light' },
  { name: 'merchants', place: 'merchants', colorScheme: 'light' },
  { name: 'overview-phone', place: '', colorScheme: 'dark', width: 360 },
]

const desktopWidth = 1280
const watchedMs = 12_000
const callMs = 300

const folder = process.argv[2] ?? join(root, 'docs/pictures')
mkdirSync(folder, { recursive: true })
const site = await openConsole(['--payments'])
const ended = new AbortController()
for (const id of ['utterance-1', 'utterance-2']) await site.stream(id)
const calls = keepCalling()
try {
  // All pages are open for a while, so that their plots have points.
  const pages: Page[] = []
  for (const picture of pictures) pages.push(await open(picture))
  await pause(watchedMs)
  for (const [index, { name }] of pictures.entries())
    await pages[index]?.screenshot({
      path: join(folder, `${name}.png`),
      fullPage: name !== 'tap' && !name.endsWith('phone'),
    })
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

async function open({ place, colorScheme, width = desktopWidth }: Picture): Promise<Page> {
  const page = await site.newPage({ colorScheme, viewport: { width, height: 800 } })
  await page.goto(`${site.origin}/console#/${place}`)
  await page.locator('main').waitFor()
  return page
}
