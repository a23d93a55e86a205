import { setTimeout as pause } from 'node:timers/promises'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import { createSlices } from '@tollway/chassis/slices.ts'
import { createRunner } from '../../../controller/runner.ts'
import type { Named } from '../../../kinds/kind-adapter.ts'
import type { Memory } from '../../../reconcilers/remembered.ts'
import type { KubeClient } from '../api/client.ts'
import type { KubeObject } from '../api/kube-object.ts'
import { lastGoodObjectNames } from '../api/last-good-objects.ts'
import { labelNames, objectName, type Place } from '../infrastructure/objects/place.ts'
import { encodeLastGood } from './last-good.ts'
import { joinPieces, type LastGoodEntry } from './last-good-entry.ts'
import { createLastGoodLayout, type LastGoodLayout, type ObjectData } from './last-good-layout.ts'

export interface LastGoodStoreOptions {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete'>
  /** The namespace, the owner and the name of the installation. */
  readonly place: Place
  /** The plural of the kind: `ratelimitconfigs`. */
  readonly plural: string
  /** Whether this operator is the one that writes. */
  readonly mayWrite: () => boolean
  /** Whether this version still reads an entry that another one may have written. */
  readonly isReadable: (entry: LastGoodEntry, memory: Memory<Named>) => boolean
  /** Everything that was wanted is stored now. */
  readonly onStored: () => void
  readonly onError: (error: unknown, retryMs: number) => void
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** The time between two rounds of writes, in which changes gather. 2,000 when left out. */
  readonly spacingMs?: number
}

/**
 * Keeps the last good contents of one kind in ConfigMaps of the operator's namespace. Every operator reads
 * them when it starts; the one that has the Lease writes them.
 */
export interface LastGoodStore {
  /** Reads everything that is stored, by the uid of the resource. Repeats reads that fail, until the stop. */
  read(): Promise<ReadonlyMap<string, LastGoodEntry>>
  /** Sets the contents to store: the last good contents of these memories and no others. */
  want(memories: ReadonlyMap<string, Memory<Named>>): void
  /** Whether this operator knows that the entry of the resource is stored. */
  isStored(uid: string): boolean
  /** Writes all entries that are not stored, for example because this operator has become the leader. */
  lookAtAll(): void
  stop(): Promise<void>
}

const configMaps = { group: '', version: 'v1', plural: 'configmaps', namespaced: true }
const kindLabel = 'tollway.dev/last-good'

export function createLastGoodStore(options: LastGoodStoreOptions): LastGoodStore {
  const { mayWrite, isReadable, onStored } = options
  const objects = createObjects(options)
  let wanted: ReadonlyMap<string, Memory<Named>> | undefined
  /** undefined until this operator has the Lease, and after a failed write. */
  let layout: LastGoodLayout | undefined
  let stored: ReadonlyMap<string, Memory<Named>> = new Map()

  const { spacingMs = 2_000 } = options
  const runner = createRunner({
    reconcile: store,
    onError: options.onError,
    random: options.random,
    rest: { factor: 0, shortestMs: spacingMs, longestMs: spacingMs, owedMs: 0 },
  })

  async function store(): Promise<void> {
    const memories = wanted
    const present = layout
    layout = undefined
    if (memories === undefined || !mayWrite()) return
    const next = present ?? createLastGoodLayout(await objects.read(), objects.names)
    await change(next, memories, present === undefined)
    await flush(next)
    layout = next // after a failure the objects are read again
    stored = memories
    onStored()
  }

  async function change(
    into: LastGoodLayout,
    memories: ReadonlyMap<string, Memory<Named>>,
    isJustRead: boolean,
  ): Promise<void> {
    const slices = createSlices()
    for (const uid of into.uids()) if (memories.get(uid)?.lastGood === undefined) into.remove(uid)
    for (const [uid, memory] of memories) {
      const { lastGood, lastGoodGeneration: generation = 0 } = memory
      if (lastGood === undefined) continue
      const entry = into.entry(uid)
      const isStored = entry?.generation === generation && (!isJustRead || isReadable(entry, memory))
      if (!isStored) into.put(uid, { generation, text: encodeLastGood(lastGood) })
      await slices.rest()
    }
  }

  async function flush(from: LastGoodLayout): Promise<void> {
    for (let name = from.nextUnwritten(); name !== undefined; name = from.nextUnwritten()) {
      if (!mayWrite()) throw new Error('another operator writes by now')
      await objects.write(name, from.take(name))
    }
  }

  return {
    async read() {
      const data = await objects.read()
      const pieces = new Map([...data.values()].flatMap(pieces => Object.entries(pieces)))
      return joinPieces(pieces)
    },
    want(memories) {
      wanted = memories
      if (mayWrite()) runner.trigger()
    },
    isStored: uid => stored.get(uid)?.lastGood !== undefined,
    lookAtAll: runner.trigger,
    async stop() {
      objects.stop()
      await runner.stop()
      if (wanted === stored) return
      // Changes of the last seconds may still wait for their turn.
      await store().catch((error: unknown) => options.onError(error, 0))
    },
  }
}

/** The waits between reads of an object that fail one after the other. */
const readRetries = { initialMs: 100, maxMs: 5_000, factor: 2, jitter: 0.5 } as const

/** The ConfigMaps, with the version of each that this operator knows. */
function createObjects({ client, place, plural, onError, random }: LastGoodStoreOptions) {
  const { namespace, owner } = place
  const names = lastGoodObjectNames(plural).map(name => objectName(place, name))
  const stopping = new AbortController()
  let versions = new Map<string, KubeObject['metadata']>()

  /** Each object is repeated by itself: of many reads at once hardly all would succeed while some fail. */
  async function readObject(name: string): Promise<KubeObject | undefined> {
    const backoff = createBackoff({ ...readRetries, random })
    for (;;) {
      try {
        return await client.get(configMaps, { namespace, name })
      } catch (error) {
        if (stopping.signal.aborted) throw error
        const retryMs = backoff.nextMs()
        onError(error, retryMs)
        await pause(retryMs, undefined, { signal: stopping.signal })
      }
    }
  }

  function toObject(name: string, data: ObjectData): KubeObject {
    const labels = {
      [labelNames.instance]: place.name,
      [labelNames.managedBy]: 'tollway',
      [labelNames.partOf]: 'tollway',
      [kindLabel]: plural,
    }
    const { resourceVersion, uid } = versions.get(name) ?? {}
    return {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: {
        name,
        namespace,
        labels,
        ownerReferences: [owner],
        ...(uid && { uid }),
        ...(resourceVersion && { resourceVersion }),
      },
      binaryData: data,
    }
  }

  return {
    names,
    /** Ends the repetitions. */
    stop: () => stopping.abort(),
    async read(): Promise<ReadonlyMap<string, ObjectData>> {
      const found = await Promise.all(names.map(readObject))
      const there = found.flatMap(object => object ?? [])
      versions = new Map(there.map(({ metadata }) => [metadata.name, metadata]))
      return new Map(
        there.map(({ metadata, binaryData }) => [metadata.name, (binaryData ?? {}) as ObjectData]),
      )
    },
    /** Deletes the object when it shall hold nothing. */
    async write(name: string, data: ObjectData): Promise<void> {
      const known = versions.get(name)
      if (Object.keys(data).length === 0) {
        const { uid, resourceVersion } = known ?? {}
        if (uid && resourceVersion) await client.delete(configMaps, { namespace, name, uid, resourceVersion })
        versions.delete(name)
        return
      }
      const object = toObject(name, data)
      const written = known ? client.replace(configMaps, object) : client.create(configMaps, object)
      versions.set(name, (await written).metadata)
    },
  }
}
