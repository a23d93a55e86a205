import { setTimeout as pause } from 'node:timers/promises'
import type { CDPSession, Page } from 'playwright-core'
import { residentMiB } from '../support/resident-memory.ts'
import type { OpenConsole } from './open-console.ts'
import { overview, type ShownPage, shownPages, waitForContent } from './shown-pages.ts'

export interface SoakOptions {
  /** The least time in which the buffers of plots and lists fill, and that of the measurement after it. */
  readonly warmUpMs: number
  readonly measureMs: number
  /** The least number of pages that the moving tab shows during the measurement. */
  readonly leastMoves: number
  /** The pauses between two samples, two moves of the tab that goes from page to page, and two calls. */
  readonly sampleMs: number
  readonly moveMs: number
  readonly callMs: number
  readonly onSample?: (sample: SoakSample) => void
}

export interface SoakSample {
  readonly minutes: number
  /** Those of all tabs, after a garbage collection. Nodes that only a script refers to count as well. */
  readonly heapMiB: number
  readonly nodes: number
  readonly listeners: number
  readonly operatorMiB: number
  /** The number of pages that the moving tab has shown. */
  readonly moves: number
}

type Metrics = Pick<SoakSample, 'heapMiB' | 'nodes' | 'listeners'>

const tapIndex = 3
/** The time of calls between two checks whether the list of decisions is full. */
const fillMs = 500

/** The pages: that of the domain with a rule, and that of streams with the preview of a request. */
async function pagesOf({ origin }: OpenConsole): Promise<readonly ShownPage[]> {
  const streams = (await (await fetch(`${origin}/api/v1/streams`)).json()) as { items: { key: string }[] }
  const more: Readonly<Record<string, string>> = {
    Domain: '&rule=checkout.user',
    Streams: `?key=${streams.items[0]?.key}`,
  }
  return shownPages.map(shown => ({ ...shown, place: shown.place + (more[shown.title] ?? '') }))
}

/**
 * Shows each page in a tab while calls arrive, each with a new key among them, and goes through all pages in
 * another tab. Resolves with the first sample after the warm-up, and the last one.
 */
export async function measureSoak(site: OpenConsole, options: SoakOptions) {
  const { warmUpMs, measureMs, leastMoves, sampleMs, moveMs, callMs, onSample } = options
  const pages = await pagesOf(site)
  const moving = await openTab(site, overview)
  const tabs = [...(await Promise.all(pages.map(shown => openTab(site, shown)))), moving]
  const startMs = performance.now()
  let moves = 0
  let visitors = 0

  async function move(): Promise<void> {
    moves += 1
    await show(moving.page, pages[moves % pages.length] ?? overview)
    await pause(moveMs)
  }

  async function call(): Promise<void> {
    visitors += 1
    await site.call()
    await site.tollway.ask('checkout', 'user', `visitor-${visitors}`)
    await pause(callMs)
  }

  async function sample(): Promise<SoakSample> {
    await show(moving.page, overview)
    const all: Metrics[] = []
    for (const tab of tabs) all.push(await metricsOf(tab.session))
    const total = (of: (metrics: Metrics) => number) => all.reduce((sum, each) => sum + of(each), 0)
    const taken = {
      minutes: (performance.now() - startMs) / 60_000,
      heapMiB: total(({ heapMiB }) => heapMiB),
      nodes: total(({ nodes }) => nodes),
      listeners: total(({ listeners }) => listeners),
      operatorMiB: residentMiB(site.tollway.program.pid),
      moves,
    }
    onSample?.(taken)
    return taken
  }

  const repeatUntil = async (endMs: number, task: () => Promise<void>) => {
    while (performance.now() < endMs) await task()
  }
  const run = (endMs: number) => Promise.all([repeatUntil(endMs, move), repeatUntil(endMs, call)])

  const isListFull = () => tabs[tapIndex]?.page.getByText('200 of 200').isVisible()
  do {
    await run(Math.max(startMs + warmUpMs, performance.now() + fillMs))
  } while (!(await isListFull()))
  const first = await sample()
  const endMs = performance.now() + measureMs
  let last = first
  do {
    await run(performance.now() + sampleMs)
    last = await sample()
  } while (performance.now() < endMs || last.moves - first.moves < leastMoves)
  for (const { page } of tabs) await page.context().close()
  return { first, last }
}

async function openTab(site: OpenConsole, shown: ShownPage) {
  const page = await site.newPage()
  await page.goto(`${site.origin}/console`)
  await show(page, shown)
  const session = await page.context().newCDPSession(page)
  await session.send('Performance.enable')
  return { page, session }
}

/** Moves to a page as a link does, without a load, and waits for its content. */
async function show(page: Page, shown: ShownPage): Promise<void> {
  await page.evaluate(`location.hash = '#/${shown.place}'`)
  await waitForContent(page, shown)
}

async function metricsOf(session: CDPSession): Promise<Metrics> {
  await session.send('HeapProfiler.collectGarbage')
  const { metrics } = await session.send('Performance.getMetrics')
  const metric = (wanted: string) => metrics.find(({ name }) => name === wanted)?.value ?? Number.NaN
  return {
    heapMiB: metric('JSHeapUsedSize') / 1024 / 1024,
    nodes: metric('Nodes'),
    listeners: metric('JSEventListeners'),
  }
}
