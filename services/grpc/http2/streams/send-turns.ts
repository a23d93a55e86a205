import type { Stream } from './stream.ts'

/**
 * The streams of a connection with waiting data. Streams whose window is open take turns; the others are
 * blocked until the peer opens their windows, so that no frame of the peer causes a visit of all of them.
 */
export class SendTurns {
  readonly #ready = new Set<Stream>()
  readonly #blocked = new Set<Stream>()

  /**
   * The ready streams in the order of their turns. A stream that is added during the iteration comes last.
   */
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

  /** Records that the window of this stream was widened. */
  onWidened(stream: Stream): void {
    if (stream.sendWindow > 0 && this.#blocked.delete(stream)) this.#ready.add(stream)
  }

  /**
   * Records that the windows of all streams were widened. The blocked streams become ready, even if their
   * windows are still closed. Returns their number.
   */
  onAllWidened(): number {
    const count = this.#blocked.size
    for (const stream of this.#blocked) this.#ready.add(stream)
    this.#blocked.clear()
    return count
  }
}
