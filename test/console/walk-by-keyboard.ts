import type { Page } from 'playwright-core'

/** Functions in the page: elements that a person can use, and those that have had the focus. */
const inPage = `
window.usable = () => [...document.querySelectorAll(
  'a[href], button:not(:disabled), input, select, textarea, summary, [tabindex="0"]')]
  .filter(element => element.checkVisibility())
window.reached = new Set()
window.describe = element => (element.outerHTML ?? '').replace(/\\s+/g, ' ').slice(0, 120)
window.note = () => {
  const element = document.activeElement
  const styles = [element, element.closest('.lines') ?? element].map(each => getComputedStyle(each))
  const isFirst = window.reached.size > 0 && window.reached.values().next().value === element
  window.reached.add(element)
  if (element === document.body || (isFirst && window.reached.size > 1)) return 'end'
  return styles.some(({ outlineStyle }) => outlineStyle !== 'none') ? '' : describe(element)
}`

const maxPresses = 200

/**
 * Presses the tab key until the focus leaves the page. Returns what a person who uses the keyboard only does
 * not reach, or does not see the focus on, one line each.
 */
export async function walkByKeyboard(page: Page): Promise<readonly string[]> {
  await page.evaluate(inPage)
  // The focus of a new page is in its content: what comes before is reached after the end of the page.
  await page.evaluate("document.querySelector('a').focus(), note()")
  const unmarked: string[] = []
  for (let presses = 0; presses < maxPresses; presses += 1) {
    await page.keyboard.press('Tab')
    const found = await page.evaluate<string>('note()')
    if (found === 'end') {
      const missed = await page.evaluate<string[]>(
        'usable().filter(element => !reached.has(element)).map(describe)',
      )
      return [...unmarked.map(html => `no visible focus: ${html}`), ...missed.map(html => `missed: ${html}`)]
    }
    if (found !== '') unmarked.push(found)
  }
  return [`the focus does not leave the page within ${maxPresses} presses`]
}
