import { QueryError } from '../xds/sessions/query-error.ts'
import type { Page, Paged } from './pod-sessions.ts'

const maxPages = 100

/** Reads all pages of a list of the pods. */
export async function readAll<Item>(read: (page: Page) => Promise<Paged<Item>>): Promise<readonly Item[]> {
  const all: Item[] = []
  let page: Page = {}
  for (let count = 0; count < maxPages; count++) {
    const { items, next } = await withoutPods(read(page))
    all.push(...items)
    if (next === undefined) break
    page = { after: next }
  }
  return all
}

/** No pod is connected: nothing is known of decisions, which is no error for a list. */
export async function withoutPods<Item>(asked: Promise<Paged<Item>>): Promise<Paged<Item>> {
  try {
    return await asked
  } catch (error) {
    if (error instanceof QueryError && error.code === 'no-pods') return { items: [] }
    throw error
  }
}
