import type { Memory, Remembered } from '../reconcilers/remembered.ts'
import { decodeLastGood } from './last-good.ts'
import type { StoredResource } from './stored-resource.ts'

export interface RememberedInStatus extends Remembered {
  of(uid: string): Memory | undefined
}

/**
 * What is remembered of each resource, in its own status: whoever starts reads there what was in force while
 * the resource is wrong by now. What this process saw in force itself comes first, for the status follows it.
 */
export function rememberInStatus(stored: () => readonly StoredResource[]): RememberedInStatus {
  let own: ReadonlyMap<string, Memory> = new Map()
  return {
    of: uid => own.get(uid),
    all() {
      const memories = new Map(own)
      for (const resource of stored()) {
        const { uid = '' } = resource.metadata
        const memory = memories.has(uid) ? undefined : read(resource)
        if (memory !== undefined) memories.set(uid, memory)
      }
      return memories
    },
    replace(memories) {
      own = memories
    },
  }
}

function read({ metadata, status }: StoredResource): Memory | undefined {
  const { namespace = '', name, creationTimestamp } = metadata
  const origin = `${namespace}/${name}`
  const { content, generation } = status?.lastGood ?? {}
  const lastGood = decodeLastGood(content, origin)
  const firstSeenMs = Date.parse(`${creationTimestamp}`)
  if (lastGood === undefined || Number.isNaN(firstSeenMs)) return undefined
  const isGeneration = Number.isSafeInteger(generation)
  return { firstSeenMs, origin, lastGood, ...(isGeneration && { lastGoodGeneration: Number(generation) }) }
}
