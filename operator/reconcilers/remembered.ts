/**
 * The memory of each resource of one kind over a restart: when it was first seen, which decides exclusive
 * claims, and its last good content, which stays in force while the present one is invalid or cannot be read.
 */
export interface Remembered<Content> {
  /** By the resource's uid. */
  all(): Memories<Content>
  /**
   * Notes the memory of every resource of the kind that there is; the others are forgotten. Writes only what
   * changed.
   */
  replace(memories: ReadonlyMap<string, Memory<Content>>): void
}

/** By the uid of the resource. */
export type Memories<Content> = Pick<ReadonlyMap<string, Memory<Content>>, 'get' | 'entries'>

export interface Memory<Content> {
  readonly firstSeenMs: number
  /** Where it stood when it was last seen: `shop/limits.yaml#2`. */
  readonly origin: string
  readonly lastGood?: Content | undefined
  /** The generation of the resource that said so; left out by who remembered before there was this field. */
  readonly lastGoodGeneration?: number | undefined
}
