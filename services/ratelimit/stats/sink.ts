/** Where statistics go. There is one of them in a process. */
export interface Sink {
  /**
   * Begins to send what changed since the last time, and returns at once. It never throws, and what cannot be
   * sent now goes with a later flush.
   */
  flush(): void
  /** The last flush; then everything is closed. Resolves within a second, whatever the other side does. */
  stop(): Promise<void>
}
