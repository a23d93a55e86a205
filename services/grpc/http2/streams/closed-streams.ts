/** How a stream ended, which decides how its later frames are handled. */
export const endings = {
  /**
   * The stream ended too long ago to be remembered, or was skipped: when a stream begins, all lower numbers
   * are closed (RFC 9113, 5.1.1).
   */
  UNKNOWN: 0,
  /** The peer ended the stream: DATA and HEADERS that follow are an error. */
  BY_PEER: 1,
  /** This side ended the stream: frames that the peer had already sent may follow, and are ignored. */
  BY_US: 2,
} as const

const remembered = 1024

/** How the latest `remembered` streams ended, in a fixed amount of memory. */
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
