/**
 * The items with one more, in the same array if there is one. Of its own, V8 makes room for 17 items with the first
 * that is pushed; most requests have one descriptor of one or two entries.
 */
export function appended<Item>(items: Item[] | undefined, item: Item): Item[] {
  if (items === undefined) return [item]
  items.push(item)
  return items
}
