import type { Parameters } from '../input/read-parameters.ts'

/**
 * Returns the page of a list that the parameters `after` and `limit` name.
 *
 * @param keyOf a unique text of each item, by which the list is sorted
 */
export function pageOf<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => string,
  { after, limit }: Parameters,
): { items: Item[]; next?: string } {
  const keyed = items.map(item => ({ key: keyOf(item), item })).sort((a, b) => (a.key < b.key ? -1 : 1))
  const rest = typeof after === 'string' ? keyed.filter(({ key }) => key > after) : keyed
  const page = rest.slice(0, limit as number)
  const last = page.at(-1)
  return {
    items: page.map(({ item }) => item),
    ...(last !== undefined && page.length < rest.length && { next: last.key }),
  }
}
