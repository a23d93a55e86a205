/**
 * The memory of each resource of one kind over a restart: when it was first seen, which decides exclusive
 * claims, and its last good content, which stays in force while the present one is invalid or cannot be read.
 */
export interface Remembered<Content> {
  /** Returns the memories, by the uid of the resource. */
  all(): Memories<Content>
  /** Stores the memory of every resource of the kind, and forgets all others. Writes only changes. */
  replace(memories: ReadonlyMap<string, Memory<Content>>): void
}

/** The memory of each resource, by its uid. */
export type Memories<Content> = Pick<ReadonlyMap<string, Memory<Content>>, 'get' | 'entries'>

export interface Memory<Content> {
  readonly firstSeenMs: number
  /** The last known location: `shop/limits.yaml#2`. */
  readonly origin: string
  readonly lastGood?: Content | undefined
  /**
   * The generation of the resource with this content; left out in memories of versions without this field.
   */
  readonly lastGoodGeneration?: number | undefined
  /** When the resource was deleted; its last good content is then the claim that is kept for a time. */
  readonly goneSinceMs?: number | undefined
  /** The claim of a deleted resource of the same name, which this one has taken over: see `Claims.keyOf`. */
  readonly heirOf?: string | undefined
}
