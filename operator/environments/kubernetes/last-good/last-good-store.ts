import { gunzipSync, gzipSync } from 'node:zlib'
import { oncePerObject } from '@tollway/chassis/once-per-object.ts'
import { createSlices } from '@tollway/chassis/slices.ts'
import { createRunner, type Runner } from '../../../controller/runner.ts'
import type { ResourceMemory } from '../../../kinds/choose-contents.ts'
import type { KindAdapter, Named } from '../../../kinds/kind-adapter.ts'
import { LastGoodConfigMaps, type LastGoodConfigMapsOptions } from './last-good-config-maps.ts'
import { joinPieces, type LastGoodEntry } from './last-good-entry.ts'
import { createLastGoodLayout, type LastGoodLayout } from './last-good-layout.ts'

interface LastGoodStoreOptions extends LastGoodConfigMapsOptions {
  /** Returns whether this operator leads. Checked before each write. */
  readonly mayWrite: () => boolean
  /** Returns whether this version can read an entry, which another version may have written. */
  readonly isReadable: (entry: LastGoodEntry, memory: ResourceMemory<Named>) => boolean
  /** Called when all desired contents are stored. */
  readonly onStored: () => void
  /** The time between two rounds of writes, in which changes gather; 2,000 when left out. */
  readonly spacingMs?: number
}

/**
 * Keeps the last good contents of one kind in ConfigMaps of the operator's namespace. Every operator reads
 * them at its start; only the leader writes them.
 */
export class LastGoodStore {
  readonly #options: LastGoodStoreOptions
  readonly #objects: LastGoodConfigMaps
  readonly #runner: Runner
  #desired: ReadonlyMap<string, ResourceMemory<Named>> | undefined
  /**
   * undefined until this operator first writes, and after a failed write; then the objects are read again.
   */
  #layout: LastGoodLayout | undefined
  #stored: ReadonlyMap<string, ResourceMemory<Named>> = new Map()

  constructor(options: LastGoodStoreOptions) {
    this.#options = options
    this.#objects = new LastGoodConfigMaps(options)
    const { spacingMs = 2_000, onError, random } = options
    this.#runner = createRunner({
      reconcile: () => this.#reconcile(),
      onError,
      random,
      rest: { factor: 0, shortestMs: spacingMs, longestMs: spacingMs, owedMs: 0 },
    })
  }

  /** Resolves with all entries, by the uid of the resource. Repeats failed reads until `stop`. */
  async read(): Promise<ReadonlyMap<string, LastGoodEntry>> {
    const data = await this.#objects.read()
    const pieces = new Map([...data.values()].flatMap(pieces => Object.entries(pieces)))
    return joinPieces(pieces)
  }

  /** Sets the memories whose last good contents are to be stored. All other entries are removed. */
  set(memories: ReadonlyMap<string, ResourceMemory<Named>>): void {
    this.#desired = memories
    if (this.#options.mayWrite()) this.#runner.trigger()
  }

  /** Returns whether this operator knows that the last good content of the resource is stored. */
  isStored(uid: string): boolean {
    return this.#stored.get(uid)?.lastGood !== undefined
  }

  /** Writes all entries that are not stored. Called for example when this operator has become the leader. */
  writeAll(): void {
    this.#runner.trigger()
  }

  async stop(): Promise<void> {
    this.#objects.stop()
    await this.#runner.stop()
    if (this.#desired === this.#stored) return
    // Changes of the last seconds may not be stored yet.
    await this.#reconcile().catch((error: unknown) => this.#options.onError(error, 0))
  }

  async #reconcile(): Promise<void> {
    const memories = this.#desired
    const known = this.#layout
    this.#layout = undefined
    if (memories === undefined || !this.#options.mayWrite()) return
    const layout = known ?? createLastGoodLayout(await this.#objects.read(), this.#objects.names)
    await this.#update(layout, memories, known === undefined)
    await this.#flush(layout)
    this.#layout = layout // after a failure the objects are read again
    this.#stored = memories
    this.#options.onStored()
  }

  async #update(
    layout: LastGoodLayout,
    memories: ReadonlyMap<string, ResourceMemory<Named>>,
    wasRead: boolean,
  ): Promise<void> {
    const slices = createSlices()
    // A resource without a content in memory may have one that another operator has stored meanwhile.
    for (const uid of layout.uids()) if (!memories.has(uid)) layout.remove(uid)
    for (const [uid, memory] of memories) {
      const { lastGood, lastGoodGeneration: generation = 0, goneSinceMs, heirOf } = memory
      if (lastGood === undefined) continue
      const entry = layout.entry(uid)
      const isStored =
        entry?.generation === generation &&
        entry.goneSinceMs === goneSinceMs &&
        entry.heirOf === heirOf &&
        (!wasRead || this.#options.isReadable(entry, memory))
      if (!isStored) layout.put(uid, { generation, text: encodeLastGood(lastGood), goneSinceMs, heirOf })
      await slices.yieldIfDue()
    }
  }

  async #flush(layout: LastGoodLayout): Promise<void> {
    for (let name = layout.nextUnwritten(); name !== undefined; name = layout.nextUnwritten()) {
      if (!this.#options.mayWrite())
        throw new Error('no ConfigMap is written: another operator has the Lease')
      await this.#objects.write(name, layout.take(name))
    }
  }
}

/** The maximum size of decoded content, in bytes. No resource of an API server is as large. */
const maxJsonBytes = 64 * 1024 * 1024

/** Encodes a content for the ConfigMaps. The result is cached by the content. */
export const encodeLastGood = oncePerObject((content: Named): string =>
  gzipSync(JSON.stringify(content)).toString('base64'),
)

/**
 * Returns the content that `encodeLastGood` encoded. Returns undefined for any other text, and for the
 * content of another resource than `name`, if that is given.
 */
export function decodeLastGood<Content extends Named>(
  { isContent }: Pick<KindAdapter<Content>, 'isContent'>,
  text: unknown,
  name?: string,
): Content | undefined {
  if (typeof text !== 'string') return undefined
  try {
    const json = gunzipSync(Buffer.from(text, 'base64'), { maxOutputLength: maxJsonBytes }).toString()
    const content: unknown = JSON.parse(json)
    return isContent(content) && content.name === (name ?? content.name) ? content : undefined
  } catch {
    return undefined
  }
}
