import type { Source, SourcedResource } from '../../../sources/source.ts'

/** Adds resources to a source. A resource of the source hides an added one of the same kind and name. */
export function withBuiltIn(source: Source, builtIn: readonly SourcedResource[]): Source {
  return {
    ...source,
    list() {
      const own = source.list()
      const isReplaced = (one: SourcedResource) => own.some(other => other.uid === one.uid)
      return [...own, ...builtIn.filter(one => !isReplaced(one))]
    },
  }
}
