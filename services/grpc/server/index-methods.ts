import type { AnyMethod } from '../server.ts'

/** Indexes methods by their path. Throws when a path occurs twice, which is a programming error. */
export function indexMethods(methods: readonly AnyMethod[]): ReadonlyMap<string, AnyMethod> {
  const index = new Map<string, AnyMethod>()
  for (const method of methods) {
    if (index.has(method.path)) throw new Error(`methods: ${method.path} occurs twice`)
    index.set(method.path, method)
  }
  return index
}
