import type { AnyMethod } from './server.ts'

/** Methods by their path. Throws when a path is there twice, for that is a defect of the caller. */
export function indexMethods(methods: readonly AnyMethod[]): ReadonlyMap<string, AnyMethod> {
  const index = new Map<string, AnyMethod>()
  for (const method of methods) {
    if (index.has(method.path)) throw new Error(`methods: ${method.path} is there twice`)
    index.set(method.path, method)
  }
  return index
}
