import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { findProgram, missingProgram } from './require-server.ts'

/** The shell has the engine without the user interface, and needs 40% of the CPU time. */
const chromiumPath = findProgram('chromium-headless-shell') ?? findProgram('chromium')
const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Returns the reason to skip tests in a browser; false when they run. */
export const missingChromium = chromiumPath === undefined && missingProgram('chromium-headless-shell')

export const launchChromium = (): Promise<Browser> =>
  chromium.launch({ executablePath: chromiumPath ?? '', args: ['--no-sandbox'] })

/** Opens a page of its own context. Errors of its scripts and its policy are added to `complaints`. */
export async function newPage(browser: Browser, complaints: string[], options: BrowserContextOptions = {}) {
  const context = await browser.newContext(options)
  // Other tests run on the same cores.
  context.setDefaultTimeout(40_000)
  const page = await context.newPage()
  page.on('pageerror', error => complaints.push(error.message))
  page.on('console', message => {
    // The browser also reports a page whose own status is 4xx or 5xx, and calls that it aborts because an
    // interface of the machine came or went, such as those of a test cluster. The console repeats such calls.
    if (!/status of (4|5)\d\d|ERR_NETWORK_CHANGED/.test(message.text())) complaints.push(message.text())
  })
  return page
}

/** Returns the problems that axe-core finds on the page, one line each. */
export async function accessibilityFaults(page: Page, rules?: readonly string[]): Promise<readonly string[]> {
  await page.evaluate(`if (!window.axe) { ${axeSource} }`)
  const options = rules === undefined ? {} : { runOnly: { type: 'rule', values: rules } }
  const { violations } = await page.evaluate<{ violations: readonly Violation[] }>(
    `axe.run(document, ${JSON.stringify(options)})`,
  )
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' | ')}`)
}

interface Violation {
  readonly id: string
  readonly nodes: readonly { readonly html: string }[]
}

/** Moves the focus there as a keyboard does. @throws Error when it is not reached */
export async function tabTo(page: Page, selector: string, maxPresses = 20): Promise<void> {
  for (let presses = 0; presses < maxPresses; presses += 1) {
    const isThere = await page.evaluate(`document.activeElement.matches(${JSON.stringify(selector)})`)
    if (isThere) return
    await page.keyboard.press('Tab')
  }
  throw new Error(`${selector} cannot be reached with the keyboard`)
}
