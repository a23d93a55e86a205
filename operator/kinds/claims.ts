/**
 * Decides which of several resources has a claim that only one of them, or one namespace, can have. Created
 * anew for each gathering of all resources, and called from the oldest to the youngest.
 */
export interface Claims<Content> {
  /** Why the claimant may not have this content in force; undefined when it may. */
  denialOf(content: Content, claimant: Claimant): ClaimDenial | undefined
  /** From now on it has it. */
  grant(content: Content, claimant: Claimant): void
  /** The same for two contents that claim the same. */
  keyOf(content: Content): string
}

export interface Claimant {
  /** `namespace/name`. */
  readonly name: string
  readonly namespace: string
}

export interface ClaimDenial {
  /** For programs: `DomainConflict`. */
  readonly reason: string
  /** The field that would have to be another one: `spec.domain`. */
  readonly path: string
  /** Who has it, and what to do. */
  readonly message: string
  /** The resource that has it, where it is one: its `namespace/name`. */
  readonly owner?: string
}
