/**
 * Holds a response, and each of its resources, to the type that was asked for: an empty list of another type
 * would otherwise be taken for one in which everything was deleted.
 *
 * @throws Error that says both types.
 */
export function checkType(found: string, expected: string): void {
  if (found !== expected) throw new Error(`its type is '${found}', not ${expected}`)
}
