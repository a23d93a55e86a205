/**
 * Decides which of several resources has a claim that only one resource, or one namespace, can have. Created
 * anew for each gathering of all resources, and called from the oldest to the youngest.
 */
export interface Claims<Content> {
  /** Returns why this content of the claimant must not be in force; undefined when it may be. */
  findDenial(content: Content, claimant: Claimant): ClaimDenial | undefined
  /** Gives the claim of the content to the claimant. */
  grant(content: Content, claimant: Claimant): void
  /**
   * Keeps the claim of a deleted resource for its namespace: contents of other namespaces are denied with
   * `isKept`.
   *
   * @param until the end of this, for messages
   */
  reserve(content: Content, claimant: Claimant, until: string): void
  /** Returns a key that is equal for contents with the same claim. */
  toKey(content: Content): string
}

export interface Claimant {
  /** `namespace/name`. */
  readonly name: string
  readonly namespace: string
}

export interface ClaimDenial {
  /** The reason of a condition, for programs: `DomainConflict`. */
  readonly reason: string
  /** The field to change: `spec.domain`. */
  readonly path: string
  /** A text for users: which resource has the claim, and what to do. */
  readonly message: string
  /** The resource that has the claim, as `namespace/name`; left out if no single resource has it. */
  readonly owner?: string
  /** Whether the claim is free, and is kept for the namespace of a deleted resource for a short time. */
  readonly isReserved?: boolean
}

/** A resource for whose namespace a claim is kept. */
export interface ReservedClaim extends Claimant {
  readonly until: string
}

/** Returns the denial of a claim that is kept for another namespace. */
export function denyReserved(
  path: string,
  claim: string,
  { name, namespace, until }: ReservedClaim,
): ClaimDenial {
  const whose = `belonged to ${name}, which was deleted; it is kept for the namespace ${namespace} until ${until}`
  return {
    reason: 'ClaimKept',
    path,
    message: `${claim} ${whose}, and this resource gets it then`,
    isReserved: true,
  }
}
