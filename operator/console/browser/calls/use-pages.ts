import { type CallInit, fetchJson } from './api.ts'
import { type Polled, usePoll } from './use-poll.ts'

/** One page of a list of the API. */
interface Page {
  readonly items: readonly unknown[]
  readonly next?: string | undefined
}

/** The maximum number of items in a page. */
const pageItems = 1_000
/** The maximum number of pages that are read of a list. */
const maxPages = 5

/**
 * Polls all pages of a list, up to 5,000 items; `next` is set if there are more. The other fields are those of
 * the first page.
 */
export const usePages = <List extends Page>(
  path: string,
  parameters: CallInit['parameters'],
  everyMs: number,
): Polled<List> => usePoll<List>(path, { ...parameters, limit: pageItems }, everyMs, readPages)

/** Returns the number of items of an incomplete list; undefined for a complete one. */
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
