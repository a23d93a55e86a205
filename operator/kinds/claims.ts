/**
 * Decides which of several resources has a claim that only one resource, or one namespace, can have. A new
 * object is made for each choice of contents. The resources are passed to it by their right to claims, the
 * strongest first.
 */
export interface Claims<Content> {
  /** Returns why the claimant must not have the claim of this content; undefined if it may have it. */
  findDenial(content: Content, claimant: Claimant): ClaimDenial | undefined
  grant(content: Content, claimant: Claimant): void
  /**
   * Keeps the claim of a deleted resource for its namespace. Contents of other namespaces are denied with
   * `isReserved`.
   *
   * @param until the end of the reservation, for messages
   */
  reserve(content: Content, claimant: Claimant, until: string): void
  /** Returns a key that is equal exactly for contents with the same claim. */
  toKey(content: Content): string
}

export interface Claimant {
  /** The resource that claims: `namespace/name`. */
  readonly name: string
  readonly namespace: string
}

export interface ClaimDenial {
  /** The `reason` of the resulting condition: `DomainConflict`. */
  readonly reason: string
  /** The field to change: `spec.domain`. */
  readonly path: string
  /** A text for the author: which resource has the claim, and what to do. */
  readonly message: string
  /** Which resource has the claim, as `namespace/name`; left out if no single resource has it. */
  readonly owner?: string
  /**
   * Whether the claim is free, but kept for the namespace of a resource that was deleted a short time ago.
   */
  readonly isReserved?: boolean
}

/** A claim that is kept for a namespace. `name` is the name of the deleted resource that had the claim. */
export interface ReservedClaim extends Claimant {
  readonly until: string
}

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
