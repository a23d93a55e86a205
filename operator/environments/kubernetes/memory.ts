import type { MemoryStore, ResourceMemory } from '../../kinds/choose-contents.ts'
import type { KindAdapter, Named } from '../../kinds/kind-adapter.ts'
import type { LastGoodEntry } from './last-good/last-good-entry.ts'
import { decodeLastGood, type LastGoodStore } from './last-good/last-good-store.ts'
import type { StoredResource } from './status/stored-resource.ts'

/**
 * Remembers the last good content of each resource in ConfigMaps of the operator's namespace. An operator
 * reads them at its start, because a resource that is now invalid may have an earlier version in force.
 * Content that this process itself saw in force takes precedence.
 *
 * Earlier versions stored the content in the status of the resource. It is still read from there, and then
 * moves to the ConfigMaps.
 */
export function rememberInObjects<Content extends Named>(
  kind: Pick<KindAdapter<Content>, 'isContent'>,
  store: Pick<LastGoodStore, 'read' | 'set'>,
  resources: () => readonly StoredResource[],
): MemoryStore<Content> & { read(): Promise<void> } {
  let own: ReadonlyMap<string, ResourceMemory<Content>> | undefined
  let earlier: ReadonlyMap<string, ResourceMemory<Content>> = new Map()
  return {
    async read() {
      const entries = await store.read()
      const present = resources().map(resource => [resource.metadata.uid ?? '', resource] as const)
      const uids = new Set(present.map(([uid]) => uid))
      const gone = [...entries].filter(([uid]) => !uids.has(uid))
      earlier = new Map([
        ...gone.flatMap(([uid, entry]) => toEntries(uid, readDeleted(kind, entry))),
        ...present.flatMap(([uid, resource]) => toEntries(uid, readMemory(kind, resource, entries.get(uid)))),
      ])
    },
    all: () => ({
      get: uid => own?.get(uid) ?? earlier.get(uid),
      entries: () => (own ?? earlier).entries(),
    }),
    replace(memories) {
      own = memories
      store.set(memories)
    },
  }
}

function toEntries<Content>(
  uid: string,
  memory: ResourceMemory<Content> | undefined,
): readonly (readonly [string, ResourceMemory<Content>])[] {
  return memory === undefined ? [] : [[uid, memory]]
}

/** Returns the memory of a resource that no longer exists. Its age does not matter. */
function readDeleted<Content extends Named>(
  kind: Pick<KindAdapter<Content>, 'isContent'>,
  { generation, text, goneSinceMs }: LastGoodEntry,
): ResourceMemory<Content> | undefined {
  const lastGood = decodeLastGood(kind, text)
  if (lastGood === undefined) return undefined
  return { firstSeenMs: 0, origin: lastGood.name, lastGood, lastGoodGeneration: generation, goneSinceMs }
}

/** Returns the memory with the newer one of the contents in the ConfigMaps and in the status. */
function readMemory<Content extends Named>(
  kind: Pick<KindAdapter<Content>, 'isContent'>,
  { metadata, status }: StoredResource,
  stored: LastGoodEntry | undefined,
): ResourceMemory<Content> | undefined {
  const { namespace = '', name, creationTimestamp } = metadata
  const inStatus = readStatusEntry(status?.lastGood)
  const entry = (inStatus?.generation ?? -1) > (stored?.generation ?? -1) ? inStatus : stored
  const firstSeenMs = Date.parse(`${creationTimestamp}`)
  if (entry === undefined || Number.isNaN(firstSeenMs)) return undefined
  const origin = `${namespace}/${name}`
  const { generation: lastGoodGeneration, heirOf } = entry
  return decodedLater({ firstSeenMs, origin, lastGoodGeneration, heirOf }, () =>
    decodeLastGood(kind, entry.text, origin),
  )
}

function readStatusEntry(
  lastGood: NonNullable<StoredResource['status']>['lastGood'],
): LastGoodEntry | undefined {
  const { generation, content } = lastGood ?? {}
  if (typeof content !== 'string') return undefined
  return { generation: Number.isSafeInteger(generation) ? Number(generation) : 0, text: content }
}

/**
 * Returns a memory that decodes its content when it is first used, because only invalid resources need it.
 */
function decodedLater<Content>(
  memory: ResourceMemory<Content>,
  decode: () => Content | undefined,
): ResourceMemory<Content> {
  let decoded: { readonly content: Content | undefined } | undefined
  return {
    ...memory,
    get lastGood() {
      decoded ??= { content: decode() }
      return decoded.content
    },
  }
}
