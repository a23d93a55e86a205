/** Where a configuration comes from. It loads what it finds into the configuration until it is stopped. */
export interface Feed {
  start(): void
  stop(): Promise<void>
}
