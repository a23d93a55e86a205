/**
 * Returns whether a value is an object, but neither null nor a list. The types of its fields stay unknown.
 */
export function isObject<T = Readonly<Record<string, unknown>>>(
  value: unknown,
): value is { readonly [Name in keyof T]?: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
