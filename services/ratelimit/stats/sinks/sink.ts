/** The destination of statistics. A process has one. */
export interface Sink {
  /**
   * Starts to send the changes since the last flush, and returns at once. It never throws; changes that
   * cannot be sent now are sent with a later flush.
   */
  flush(): void
  /** Flushes once more, and closes. Resolves within a second, whatever the receiver does. */
  stop(): Promise<void>
}
