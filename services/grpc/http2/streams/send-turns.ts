import type { Stream } from './stream.ts'

/**
 * The streams with data to send. Streams with an open send window take turns; the others are not visited
 * until the peer opens their windows.
 */
export class SendTurns {
  readonly #ready = new Set<Stream>()
  readonly #blocked = new Set<Stream>()

  /** The streams whose turn may come, in order. A stream that is added during the iteration comes last. */
  get ready(): Iterable<Stream> {
    return this.#ready
  }

  add(stream: Stream): void {
    if (stream.sendWindow > 0) this.#ready.add(stream)
    else this.#blocked.add(stream)
  }

  delete(stream: Stream): void {
    if (!this.#ready.delete(stream)) this.#blocked.delete(stream)
  }

  onWidened(stream: Stream): void {
    if (stream.sendWindow > 0 && this.#blocked.delete(stream)) this.#ready.add(stream)
  }

  /** Makes all blocked streams ready, even if some windows are still closed. Returns their number. */
  onAllWidened(): number {
    const count = this.#blocked.size
    for (const stream of this.#blocked) this.#ready.add(stream)
    this.#blocked.clear()
    return count
  }
}
