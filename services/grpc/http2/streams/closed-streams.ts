/** How a stream ended, which determines the handling of its later frames. */
export const endings = {
  /** Forgotten, or never begun: a new stream closes all skipped ones (RFC 9113, 5.1.1). */
  UNKNOWN: 0,
  /** The peer knew of the end when it sent its last frame: another frame is an error. */
  BY_PEER: 1,
  /** The server ended it, and frames of the peer may have been in transit: they are ignored. */
  BY_US: 2,
} as const

/** The number of recent streams whose endings are stored. */
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

  findEnding(streamId: number): number {
    const slot = (streamId >>> 1) % remembered
    return this.#ids[slot] === streamId ? (this.#endings[slot] ?? endings.UNKNOWN) : endings.UNKNOWN
  }
}
