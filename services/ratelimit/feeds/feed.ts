/** A source of configurations. It loads what it receives into the configuration until it is stopped. */
export interface Feed {
  start(): void
  stop(): Promise<void>
}
