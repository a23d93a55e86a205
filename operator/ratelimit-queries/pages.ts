import { QueryError } from '../pods/query-error.ts'
import { maxPageItems, type Paged, type PageRequest } from './pod-sessions.ts'

/**
 * @param nameOf returns the unique name by which the items are sorted
 * @throws QueryError `invalid` for a limit that is not allowed
 */
export function paginate<T>(
  items: readonly T[],
  nameOf: (item: T) => string,
  page: PageRequest = {},
): Paged<T> {
  const { after, limit = maxPageItems } = page
  if (!(Number.isInteger(limit) && limit >= 1 && limit <= maxPageItems)) {
    throw new QueryError(
      'invalid',
      `limit: ${limit} is not a whole number from 1 to ${maxPageItems}`,
      'limit',
    )
  }
  const named = items.map(item => ({ name: nameOf(item), item })).sort((a, b) => (a.name < b.name ? -1 : 1))
  const rest = after === undefined ? named : named.filter(({ name }) => name > after)
  const shown = rest.slice(0, limit)
  const next = shown.at(-1)?.name
  const listed = { items: shown.map(({ item }) => item) }
  return rest.length > limit && next !== undefined ? { ...listed, next } : listed
}

const maxPages = 100

/** Reads the pages of a list, at most 100 of them. The list is empty while no pod is connected. */
export async function readAll<Item>(
  read: (page: PageRequest) => Promise<Paged<Item>>,
): Promise<readonly Item[]> {
  const all: Item[] = []
  let page: PageRequest = {}
  for (let count = 0; count < maxPages; count++) {
    const { items, next } = await withoutPods(read(page))
    all.push(...items)
    if (next === undefined) break
    page = { after: next }
  }
  return all
}

/** Resolves with an empty page if no pod is connected: for a list, that is no error. */
export async function withoutPods<Item>(asked: Promise<Paged<Item>>): Promise<Paged<Item>> {
  try {
    return await asked
  } catch (error) {
    if (error instanceof QueryError && error.code === 'no-pods') return { items: [] }
    throw error
  }
}
