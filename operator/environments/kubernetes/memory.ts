import type { MemoryStore, ResourceMemory } from '../../kinds/choose-contents.ts'
import type { KindAdapter, Named } from '../../kinds/kind-adapter.ts'
import type { LastGoodEntry } from './last-good/last-good-entry.ts'
import { decodeLastGood, type LastGoodStore } from './last-good/last-good-store.ts'
import { hasNothingInForce, type StoredResource } from './status/stored-resource.ts'

/**
 * Remembers the last good content of each resource in ConfigMaps of the operator's namespace. An operator
 * reads them at its start, because a resource that is now invalid may have an earlier version in force.
 * Content that this process itself saw in force takes precedence, except for disputed resources: about these,
 * the leader has chosen otherwise, and what it has stored replaces what this process remembers. So operators
 * that saw changes in another order have the same memories in the end.
 *
 * Earlier versions stored the content in the status of the resource. It is still read from there, and then
 * moves to the ConfigMaps.
 */
export function rememberInObjects<Content extends Named>(
  kind: Pick<KindAdapter<Content>, 'isContent'>,
  store: Pick<LastGoodStore, 'read' | 'set'>,
  resources: () => readonly StoredResource[],
): MemoryStore<Content> & {
  /** @param isDisputed returns whether the leader has chosen otherwise about the resource */
  read(isDisputed?: (resource: StoredResource) => boolean): Promise<void>
} {
  let own: ReadonlyMap<string, ResourceMemory<Content>> | undefined
  let earlier: ReadonlyMap<string, ResourceMemory<Content>> = new Map()

  function find(uid: string): ResourceMemory<Content> | undefined {
    const [known, read] = [own?.get(uid), earlier.get(uid)]
    return hasContent(known) ? known : (read ?? known)
  }

  return {
    async read(isDisputed = () => false) {
      const entries = await store.read()
      const present = resources().map(resource => [resource.metadata.uid ?? '', resource] as const)
      const uids = new Set(present.map(([uid]) => uid))
      const gone = [...entries]
        .filter(([uid]) => !uids.has(uid))
        .flatMap(([uid, entry]) => toEntries(uid, readDeleted(kind, entry)))
      earlier = new Map([
        ...gone,
        ...present.flatMap(([uid, resource]) => toEntries(uid, readMemory(kind, resource, entries.get(uid)))),
      ])
      if (own === undefined || !present.some(([, resource]) => isDisputed(resource))) return
      const known = own
      const kept = present.flatMap(([uid, resource]) => {
        const memory = known.get(uid)
        return toEntries(uid, isDisputed(resource) ? concede(resource, memory, earlier.get(uid)) : memory)
      })
      own = new Map([...gone, ...kept])
    },
    all: () => ({
      get: find,
      entries: () => (own ?? earlier).entries(),
    }),
    replace(memories) {
      own = memories
      store.set(memories)
    },
  }
}

/**
 * Returns the memory of a disputed resource. What is in force and not stored yet stays, but not the claim of a
 * deleted resource, which the leader would have stored.
 */
function concede<Content>(
  { status = {} }: StoredResource,
  own: ResourceMemory<Content> | undefined,
  stored: ResourceMemory<Content> | undefined,
): ResourceMemory<Content> | undefined {
  if (stored !== undefined || own === undefined || hasNothingInForce(status)) return stored
  const { firstSeenMs, origin, lastGoodGeneration } = own
  return decodedLater({ firstSeenMs, origin, lastGoodGeneration }, () => own.lastGood)
}

/** Does not read the content, because that may mean decoding it. */
function hasContent(memory: ResourceMemory<unknown> | undefined): boolean {
  return memory?.lastGoodGeneration !== undefined
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
