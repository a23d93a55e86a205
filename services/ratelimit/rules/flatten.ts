import type { DescriptorConfig, DomainConfig } from './config.ts'

/** A step of reading configurations from their first line to their last: a domain begins, or a descriptor. */
export type FlatItem =
  | { readonly domain: string }
  /**
   * `depth` is 0 for those of the domain itself; `isParent` says that those of the next depth follow, which
   * belong to it.
   */
  | { readonly depth: number; readonly isParent: boolean; readonly descriptor: FlatDescriptor }

/** A descriptor without those below it. */
export type FlatDescriptor = Omit<DescriptorConfig, 'descriptors'>

/**
 * Configurations as a list, for who takes them in parts; `compile` takes it item by item. All of it is JSON, but
 * for members that are undefined.
 */
export function* flatten(configs: readonly DomainConfig[]): Generator<FlatItem, undefined> {
  for (const { domain, descriptors } of configs) {
    yield { domain }
    yield* flattenDescriptors(descriptors, 0)
  }
  return undefined
}

function* flattenDescriptors(
  descriptors: readonly DescriptorConfig[],
  depth: number,
): Generator<FlatItem, undefined> {
  for (const { descriptors: below, ...descriptor } of descriptors) {
    yield { depth, isParent: below.length > 0, descriptor }
    if (below.length > 0) yield* flattenDescriptors(below, depth + 1)
  }
  return undefined
}
