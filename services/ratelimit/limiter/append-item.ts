/**
 * Appends an item to the array, or creates an array with the item. V8 reserves room for 17 items at the first
 * push to an empty array; most requests have one descriptor of one or two entries.
 */
export function appendItem<Item>(items: Item[] | undefined, item: Item): Item[] {
  if (items === undefined) return [item]
  items.push(item)
  return items
}
