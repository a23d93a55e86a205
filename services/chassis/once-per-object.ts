/**
 * Returns the function with a cache, which has the result of each object for as long as that object lives. For
 * objects that never change, such as the contents of resources.
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
