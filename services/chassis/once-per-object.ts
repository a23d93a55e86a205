/**
 * Returns a function that computes each result once, and keeps it while its object lives. Only for objects
 * that never change.
 */
export function oncePerObject<Key extends object, Result>(
  compute: (key: Key) => Result,
): (key: Key) => Result {
  const known = new WeakMap<Key, { readonly result: Result }>()
  return key => {
    const found = known.get(key)
    if (found !== undefined) return found.result
    const result = compute(key)
    known.set(key, { result })
    return result
  }
}
