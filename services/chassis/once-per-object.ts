/**
 * Returns the function with its result kept for as long as the object lives. For values that never change, such as
 * the contents of resources: the same object has the same result, and another object is computed anew.
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
