import { type Asset, assets, hashForIntegrity, pageHeaders } from './assets.ts'

const timeoutMs = 10_000
const maxListed = 20

/**
 * Loads a payment page as a payer's browser does, and compares the headers, the scripts and all other loaded
 * files with `pageHeaders` and `assets` (PCI DSS 4.0.1, requirements 6.4.3 and 11.6.1).
 *
 * @param address the public address of a payment link or of the folder of the pages, so that proxies and
 *   caches are checked too
 * @returns the differences, at most `maxListed`; empty for an intact page
 * @throws Error if the page cannot be loaded
 */
export async function checkPage(address: string): Promise<readonly string[]> {
  const { headers, text } = await load(address)
  const differences = [...compareHeaders(headers), ...compareElements(text)]
  for (const asset of Object.values(assets)) {
    const differing = await compareAsset(asset, new URL(asset.path, address).href)
    if (differing !== undefined) differences.push(differing)
  }
  return differences.slice(0, maxListed)
}

async function load(address: string) {
  const response = await fetch(address, { signal: AbortSignal.timeout(timeoutMs), redirect: 'error' })
  const { status, headers } = response
  const text = await response.text()
  if (status >= 500) throw new Error(`${address}: status ${status}`)
  return { status, headers, text }
}

function compareHeaders(headers: Headers): readonly string[] {
  return Object.entries(pageHeaders).flatMap(([name, expected]) => {
    const found = headers.get(name)
    return found === expected ? [] : [`header ${name}: is ${JSON.stringify(found)}, not as it was sent`]
  })
}

/** Matches elements that can load or run something, or send a form: they must be in the inventory. */
const loading = /<(script|link|iframe|frame|object|embed|base|img|meta http-equiv|form)\b[^>]*>/gi
const handler = /<[^>]+\son[a-z]+\s*=/i

function compareElements(text: string): readonly string[] {
  const found = [...text.matchAll(loading)].map(([tag]) => tag)
  const unknown = found.filter(tag => !isKnown(tag)).map(tag => `element ${tag}: is not in the inventory`)
  const missing = Object.values(assets)
    .filter(({ path }) => !found.some(tag => tag.includes(path)))
    .map(({ path }) => `element that loads ${path}: is missing`)
  const inline = /<script\b[^>]*>[^<]/i.test(text) ? ['element script: has inline code'] : []
  const handlers = handler.test(text) ? ['element: has an event handler'] : []
  return [...unknown, ...missing, ...inline, ...handlers]
}

function isKnown(tag: string): boolean {
  if (/^<form\b/i.test(tag)) return /\saction="\.\/[^"]*"/.test(tag)
  return Object.values(assets).some(
    ({ path, integrity }) =>
      tag.includes(`="./${path}"`) && (tag.startsWith('<link rel="icon"') || tag.includes(`"${integrity}"`)),
  )
}

async function compareAsset({ path, integrity }: Asset, address: string): Promise<string | undefined> {
  const { status, text } = await load(address)
  const found = hashForIntegrity(text)
  if (status === 200 && found === integrity) return undefined
  return `${path}: has status ${status} and ${found}, not ${integrity}`
}
