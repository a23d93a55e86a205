import { isObject } from '@tollway/chassis/is-object.ts'
/** A field that differs. A side is undefined where the field is missing. */
export interface FieldDifference {
  /** `spec.descriptors[user].rateLimit.requestsPerUnit`. */
  readonly path: string
  readonly before?: unknown
  readonly after?: unknown
}

/**
 * Returns the fields that differ, in the order of the fields. Elements of a list are matched by their `key`
 * and `value`, or by their `name`, if these are unique, and else by their position.
 */
export function fieldDifferences(before: unknown, after: unknown, path: string): readonly FieldDifference[] {
  if (isObject(before) && isObject(after))
    return differencesOfEntries(before, after, name => `${path}.${name}`)
  if (Array.isArray(before) && Array.isArray(after)) {
    const [left, right] = [namesOf(before), namesOf(after)]
    const byName = left !== undefined && right !== undefined
    const entries = (list: readonly unknown[], names: readonly string[] | undefined) =>
      Object.fromEntries(list.map((element, index) => [`[${byName ? names?.[index] : index}]`, element]))
    return differencesOfEntries(entries(before, left), entries(after, right), name => `${path}${name}`)
  }
  if (before === after) return []
  return [{ path, ...(before !== undefined && { before }), ...(after !== undefined && { after }) }]
}

function differencesOfEntries(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
  pathOf: (name: string) => string,
): readonly FieldDifference[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  const sideOf = (side: typeof before, name: string) => (Object.hasOwn(side, name) ? side[name] : undefined)
  return names.flatMap(name => fieldDifferences(sideOf(before, name), sideOf(after, name), pathOf(name)))
}

function namesOf(list: readonly unknown[]): readonly string[] | undefined {
  const names = list.map(element => {
    if (!isObject(element)) return undefined
    const { key, value, name } = element
    if (typeof key === 'string') return typeof value === 'string' && value !== '' ? `${key}=${value}` : key
    return typeof name === 'string' ? name : undefined
  })
  const found = names.filter(name => name !== undefined)
  return found.length === list.length && new Set(found).size === list.length ? found : undefined
}
