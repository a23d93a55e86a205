/** How a stream ended, as it matters for frames that come for it later. */
export const endings = {
  /** Forgotten, or never begun: who begins a stream closes all that it skipped (RFC 9113, 5.1.1). */
  UNKNOWN: 0,
  /** The peer knew that it had ended when it sent its last frame: another one is an error. */
  BY_PEER: 1,
  /** We ended it, and frames of the peer may have been on their way: they are ignored. */
  BY_US: 2,
} as const

/** So many streams back we know how each one ended. */
const remembered = 1024

/** The endings of the latest streams of a connection, in a fixed amount of memory. */
export class ClosedStreams {
  readonly #ids = new Uint32Array(remembered)
  readonly #endings = new Uint8Array(remembered)

  add(streamId: number, ending: number): void {
    const slot = (streamId >>> 1) % remembered
    this.#ids[slot] = streamId
    this.#endings[slot] = ending
  }

  endingOf(streamId: number): number {
    const slot = (streamId >>> 1) % remembered
    return this.#ids[slot] === streamId ? (this.#endings[slot] ?? endings.UNKNOWN) : endings.UNKNOWN
  }
}
