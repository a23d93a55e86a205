import type { Stream } from './stream.ts'

/**
 * The streams of a connection whose data waits. Those whose own window is open take turns; the others are set
 * aside until the peer opens their windows, so that no frame of the peer makes us visit all of them.
 */
export class SendTurns {
  readonly #ready = new Set<Stream>()
  readonly #blocked = new Set<Stream>()

  /** In the order of their turns. A stream that is added during the iteration comes last. */
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

  /** The window of this stream was widened. */
  onWidened(stream: Stream): void {
    if (stream.sendWindow > 0 && this.#blocked.delete(stream)) this.#ready.add(stream)
  }

  /**
   * The windows of all streams were widened. Those that were set aside get a turn again, even if their windows
   * are closed still. Returns how many they are.
   */
  onAllWidened(): number {
    const count = this.#blocked.size
    for (const stream of this.#blocked) this.#ready.add(stream)
    this.#blocked.clear()
    return count
  }
}
