import { type CallInit, fetchJson } from './api.ts'
import { type Polled, usePoll } from './use-poll.ts'

/** A list of the API, of which one call returns one page. */
interface Page {
  readonly items: readonly unknown[]
  readonly next?: string | undefined
}

/** The most items of a page, and the most pages that are read of a list. */
const pageItems = 1_000
const maxPages = 5

/**
 * Repeats the calls for all pages of a list, up to 5,000 items: `next` is set if there are more. The
 * other fields are those of the first page.
 */
export const usePages = <List extends Page>(
  path: string,
  parameters: CallInit['parameters'],
  everyMs: number,
): Polled<List> => usePoll<List>(path, { ...parameters, limit: pageItems }, everyMs, readPages)

/** Returns the number of items of a list that has more of them; undefined for a whole list. */
export const countListed = ({ items, next }: Page) => (next === undefined ? undefined : items.length)

async function readPages<List extends Page>(path: string, { parameters, ...init }: CallInit): Promise<List> {
  const read = (after?: string) => fetchJson<List>(path, { parameters: { ...parameters, after }, ...init })
  const first = await read()
  const items = [...first.items]
  let { next } = first
  for (let count = 1; next !== undefined && count < maxPages; count += 1) {
    const page = await read(next)
    items.push(...page.items)
    next = page.next
  }
  return { ...first, items, next }
}
