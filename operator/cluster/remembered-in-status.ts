import type { FedKind, Named } from '../kinds/fed-kind.ts'
import type { Memory, Remembered } from '../reconcilers/remembered.ts'
import { decodeLastGood } from './last-good.ts'
import type { StoredResource } from './stored-resource.ts'

export interface RememberedInStatus<Content> extends Remembered<Content> {
  of(uid: string): Memory<Content> | undefined
}

/**
 * What is remembered of each resource, in its own status: whoever starts reads there what was in force while
 * the resource is wrong by now. What this process saw in force itself comes first, for the status follows it.
 */
export function rememberInStatus<Content extends Named>(
  kind: Pick<FedKind<Content>, 'isContent'>,
  stored: () => readonly StoredResource[],
): RememberedInStatus<Content> {
  let own: ReadonlyMap<string, Memory<Content>> = new Map()
  return {
    of: uid => own.get(uid),
    all() {
      const memories = new Map(own)
      for (const resource of stored()) {
        const { uid = '' } = resource.metadata
        const memory = memories.has(uid) ? undefined : read(kind, resource)
        if (memory !== undefined) memories.set(uid, memory)
      }
      return memories
    },
    replace(memories) {
      own = memories
    },
  }
}

function read<Content extends Named>(
  kind: Pick<FedKind<Content>, 'isContent'>,
  { metadata, status }: StoredResource,
): Memory<Content> | undefined {
  const { namespace = '', name, creationTimestamp } = metadata
  const origin = `${namespace}/${name}`
  const { content, generation } = status?.lastGood ?? {}
  const lastGood = decodeLastGood(kind, content, origin)
  const firstSeenMs = Date.parse(`${creationTimestamp}`)
  if (lastGood === undefined || Number.isNaN(firstSeenMs)) return undefined
  const isGeneration = Number.isSafeInteger(generation)
  return { firstSeenMs, origin, lastGood, ...(isGeneration && { lastGoodGeneration: Number(generation) }) }
}
