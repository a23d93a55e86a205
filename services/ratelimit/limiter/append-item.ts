/**
 * Appends an item to the array, or creates an array with the item. It never pushes to an empty array, for
 * which V8 would reserve room for 17 items: most requests have one descriptor of one or two entries.
 */
export function appendItem<Item>(items: Item[] | undefined, item: Item): Item[] {
  if (items === undefined) return [item]
  items.push(item)
  return items
}
