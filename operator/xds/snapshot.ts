import { hash } from 'node:crypto'

export interface Resource {
  /** Unique in its snapshot: `namespace/name` of the custom resource. */
  readonly name: string
  /** The encoded message, of the type of the snapshot. */
  readonly bytes: Uint8Array
  /** The hash of the bytes. Equal content has an equal hash on every replica. */
  readonly hash: string
  /** The features that a client needs for the content; a client that lacks one does not get it. */
  readonly features: readonly string[]
}

/** All resources of one type in the feed. A snapshot is immutable. */
export interface Snapshot {
  /**
   * The type of the resources, such as `type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig`.
   */
  readonly typeUrl: string
  /** The hash of the whole content: the same on every replica and after a restart. */
  readonly version: string
  /** The resources by name, in the order of the names. */
  readonly resources: ReadonlyMap<string, Resource>
  /** The features that at least one resource needs. */
  readonly features: ReadonlySet<string>
  /** The sum of the resources' lengths. */
  readonly bytes: number
}

/**
 * The length of hashes: 128 bits of SHA-256 in hex, short enough to read aloud and long enough to be unique.
 */
const hashChars = 32

/** Creates a resource. Throws for an empty name, since rejections name the resource. */
export function createResource(name: string, bytes: Uint8Array, features: readonly string[] = []): Resource {
  if (name === '') throw new Error('a resource of the feed needs a name')
  return { name, bytes, hash: hash('sha256', bytes, 'hex').slice(0, hashChars), features }
}

/**
 * Returns the canonical snapshot of these resources, independent of their order. Throws for two resources
 * with the same name.
 */
export function createSnapshot(typeUrl: string, resources: Iterable<Resource>): Snapshot {
  const sorted = [...resources].sort((a, b) => (a.name < b.name ? -1 : 1))
  const byName = new Map<string, Resource>()
  const features = new Set<string>()
  let bytes = 0
  for (const resource of sorted) {
    if (byName.has(resource.name)) throw new Error(`two resources of a snapshot are named ${resource.name}`)
    byName.set(resource.name, resource)
    bytes += resource.bytes.length
    for (const feature of resource.features) features.add(feature)
  }
  const content = JSON.stringify([typeUrl, ...sorted.map(({ name, hash }) => [name, hash])])
  const version = hash('sha256', content, 'hex').slice(0, hashChars)
  return { typeUrl, version, resources: byName, features, bytes }
}
