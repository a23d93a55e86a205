/**
 * Checks the type of a response, or of a resource: an empty list of another type would otherwise delete
 * everything.
 *
 * @throws Error with both types
 */
export function checkType(found: string, expected: string): void {
  if (found !== expected) throw new Error(`its type is '${found}', not ${expected}`)
}
