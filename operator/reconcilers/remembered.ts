import type { RateLimitDomain } from '../ir.ts'

/**
 * What is remembered of each resource over a restart: since when it is there, which decides who owns a
 * domain, and its last good content, which stays in force while the present one is wrong or its file cannot
 * be read.
 */
export interface Remembered {
  /** By the resource's uid. */
  all(): ReadonlyMap<string, Memory>
  /**
   * Notes the memory of every resource that there is; the others are forgotten. Writes only what changed.
   */
  replace(memories: ReadonlyMap<string, Memory>): void
}

export interface Memory {
  readonly firstSeenMs: number
  /** Where it stood when it was last seen: `shop/limits.yaml#2`. */
  readonly origin: string
  readonly lastGood?: RateLimitDomain
  /** The generation of the resource that said so; left out by who remembered before there was this field. */
  readonly lastGoodGeneration?: number
}
