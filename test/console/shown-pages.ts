import type { Page } from 'playwright-core'

export interface ShownPage {
  /** The address after `#/`. */
  readonly place: string
  readonly title: string
  /** Selectors of what the page shows after the answers to its calls. */
  readonly content: readonly string[]
}

const regionOf = (title: string) => `[role="region"][aria-label="${title}"]`

export const overview: ShownPage = {
  ...{ place: '', title: 'Overview' },
  content: [
    ...['Domains', 'Rate limit pods'].map(regionOf),
    // Each kind is a call.
    ...['checkout', 'kiosks', 'bakery'].map(name => `${regionOf('Resources')} :text("${name}")`),
  ],
}

/** The pages of a console with resources of each kind, and a request of a broker. */
export const shownPages: readonly ShownPage[] = [
  overview,
  {
    ...{ place: 'domain?domain=checkout', title: 'Domain' },
    content: [regionOf('Rules'), 'text=/^(Top keys|No key yet), counted/', '#try', '#counter'],
  },
  {
    ...{ place: 'what-if', title: 'What-if' },
    content: ['#resource', '#editor', 'button:text-is("Apply")', 'text=/^(Based on|No call of the domain)/'],
  },
  { place: 'tap', title: 'Tap', content: ['#domain', '#filter', '.facts .state.good'] },
  { place: 'streams', title: 'Streams', content: [regionOf('Requests')] },
  { place: 'merchants', title: 'Merchants', content: [regionOf('Merchants')] },
]

/**
 * Resolves when the page has all of its content. Its heading comes earlier: a table that comes later is not
 * part of what a test examines.
 */
export async function waitForContent(page: Page, { title, content }: ShownPage): Promise<void> {
  await page.getByRole('heading', { level: 1, name: title }).waitFor()
  for (const selector of content) await page.locator(selector).first().waitFor()
}
