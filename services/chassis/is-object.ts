/** Returns whether a value is an object, and neither null nor a list. Its fields are not validated. */
export function isObject<T = Readonly<Record<string, unknown>>>(
  value: unknown,
): value is { readonly [Name in keyof T]?: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
