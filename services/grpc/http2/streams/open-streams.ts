import type { Stream } from './stream.ts'

const initialPlaces = 16
const maxPlaces = 1024

/**
 * The open streams by their numbers. The latest streams are in a ring, which grows up to `maxPlaces`; for
 * most streams it suffices, since numbers increase by two. A stream that is still open when its place is
 * needed moves to a map.
 *
 * A map alone costs 17 MiB under load: it is rehashed every few hundred calls, and V8 links the old table to
 * the new one. Once one table is in the old generation, all later ones stay alive, with every call that was
 * in them, until the next full collection.
 */
export class OpenStreams {
  #latest: (Stream | undefined)[] = Array(initialPlaces).fill(undefined)
  readonly #older = new Map<number, Stream>()
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Returns a copy, in the order of the numbers. */
  all(): readonly Stream[] {
    const latest = this.#latest.filter(stream => stream !== undefined)
    return [...this.#older.values(), ...latest].sort((a, b) => a.id - b.id)
  }

  get(id: number): Stream | undefined {
    const found = this.#latest[this.#findSlot(id)]
    return found?.id === id ? found : this.#older.get(id)
  }

  add(stream: Stream): void {
    this.#size += 1
    while (this.#latest[this.#findSlot(stream.id)] !== undefined) this.#makeRoom(this.#findSlot(stream.id))
    this.#latest[this.#findSlot(stream.id)] = stream
  }

  delete(id: number): void {
    const slot = this.#findSlot(id)
    if (this.#latest[slot]?.id === id) this.#latest[slot] = undefined
    else if (!this.#older.delete(id)) return
    this.#size -= 1
  }

  #findSlot(id: number): number {
    return (id >>> 1) & (this.#latest.length - 1)
  }

  #makeRoom(slot: number): void {
    const latest = this.#latest
    const occupant = latest[slot]
    if (latest.length < maxPlaces) {
      this.#latest = Array(2 * latest.length).fill(undefined)
      for (const stream of latest) if (stream !== undefined) this.#latest[this.#findSlot(stream.id)] = stream
    } else if (occupant !== undefined) {
      this.#older.set(occupant.id, occupant)
      latest[slot] = undefined
    }
  }
}
