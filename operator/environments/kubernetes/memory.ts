import type { MemoryStore, ResourceMemory } from '../../kinds/choose-contents.ts'
import type { KindAdapter, Named } from '../../kinds/kind-adapter.ts'
import type { LastGoodEntry } from './last-good/last-good-entry.ts'
import { decodeLastGood, type LastGoodStore } from './last-good/last-good-store.ts'
import type { StoredResource } from './status/stored-resource.ts'

interface RememberedInObjects<Content> extends MemoryStore<Content> {
  /** Reads the last good contents that earlier operators stored. */
  read(): Promise<void>
}

/**
 * Remembers the last good content of each resource in objects of the operator's namespace. An operator that
 * starts reads it there, because a resource that is invalid now may have a valid earlier version in force.
 * Content that this process saw in force itself takes precedence.
 *
 * Earlier versions stored the content in the status of the resource. It is read from there, too, and moves to
 * objects.
 */
export function rememberInObjects<Content extends Named>(
  kind: Pick<KindAdapter<Content>, 'isContent'>,
  store: Pick<LastGoodStore, 'read' | 'set'>,
  resources: () => readonly StoredResource[],
): RememberedInObjects<Content> {
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

/** The memory of a resource that does not exist any more. Its age has no effect. */
function readDeleted<Content extends Named>(
  kind: Pick<KindAdapter<Content>, 'isContent'>,
  { generation, text, goneSinceMs }: LastGoodEntry,
): ResourceMemory<Content> | undefined {
  const lastGood = decodeLastGood(kind, text)
  if (lastGood === undefined) return undefined
  return { firstSeenMs: 0, origin: lastGood.name, lastGood, lastGoodGeneration: generation, goneSinceMs }
}

/** Returns the newer one of the contents in objects and in the status. */
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

/** Decodes the content when it is first used: only invalid resources need it. */
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
