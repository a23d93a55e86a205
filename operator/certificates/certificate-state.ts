/** The state of the three Secrets, parsed and validated. `plan` derives the next write from it. */
export interface CertificateState {
  /** undefined when the authority's Secret does not exist or has no usable content. */
  readonly authority: Authority | undefined
  readonly leaves: Readonly<Record<LeafName, LeafSecret | undefined>>
}

/**
 * Who owns a leaf certificate. `server`: the operators, which also use it as clients of each other. `client`:
 * all pods that the operators run.
 */
export type LeafName = 'server' | 'client'
export const leafNames = ['server', 'client'] as const

export interface Authority {
  readonly issuing: Issuer
  /** Already trusted by readers; issues leaf certificates once the rotation replaces `issuing`. */
  readonly next: Issuer | undefined
  /**
   * Earlier authorities, newest first. They stay trusted because leaf certificates that they issued may be in
   * use.
   */
  readonly old: readonly KnownCertificate[]
}

export interface KnownCertificate {
  /** The SHA-256 fingerprint of the certificate. */
  readonly id: string
  readonly pem: string
  readonly issuedAtMs: number
  readonly expiresAtMs: number
}

export interface Issuer extends KnownCertificate {
  /** The secret key in PEM; undefined if it is missing or unusable. */
  readonly key: string | undefined
}

/**
 * The content of a leaf's Secret: a leaf certificate, and the authorities that readers of the Secret trust.
 */
export interface LeafSecret {
  /** undefined if the Secret has no usable certificate. */
  readonly leaf: Leaf | undefined
  /** The authorities that readers of the Secret trust, in the order of `ca.crt`. */
  readonly trusted: readonly KnownCertificate[]
  /**
   * The time at which these authorities were published; undefined if it is missing, invalid, or more than a
   * minute in the future.
   */
  readonly trustedSinceMs: number | undefined
}

export interface Leaf extends KnownCertificate {
  /**
   * The id of the authority that signed the certificate; empty if it is neither a known authority nor in
   * `trusted`.
   */
  readonly issuerId: string
  /** Whether the certificate has the names and usages of the `LeafSpec`. */
  readonly hasWantedNames: boolean
}

/** Returns the authorities that every reader must trust, in the order of `ca.crt`. */
export function trustedBy({ issuing, next, old }: Authority): readonly KnownCertificate[] {
  return [issuing, ...(next ? [next] : []), ...old]
}
