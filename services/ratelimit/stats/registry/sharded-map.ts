/** The part of a `Map` with string keys that is needed here. */
export interface ShardedMap<T> {
  get(key: string): T | undefined
  set(key: string, value: T): void
}

/**
 * A map without long pauses for growth. A `Map` rehashes all entries when it is full: at half a million
 * entries that stops the process for 60 ms. Here each of 64 shards grows separately.
 */
export function createShardedMap<T>(): ShardedMap<T> {
  const shards = Array.from({ length: shardCount }, () => new Map<string, T>())
  const shardOf = (key: string) => shards[hashOf(key) & (shardCount - 1)]
  return {
    get: key => shardOf(key)?.get(key),
    set(key, value) {
      shardOf(key)?.set(key, value)
    },
  }
}

/** A power of 2. */
const shardCount = 64

function hashOf(key: string): number {
  let hash = 0
  for (let index = 0; index < key.length; index += 1) {
    hash = (Math.imul(hash, 31) + key.charCodeAt(index)) | 0
  }
  return hash ^ (hash >>> 16)
}
