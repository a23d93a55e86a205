/** The state of the three Secrets, parsed and validated. It does not depend on a clock. */
export interface CertificateState {
  /** undefined when its Secret does not exist, or has no usable content. */
  readonly authority: Authority | undefined
  readonly leaves: Readonly<Record<LeafName, LeafSecret | undefined>>
}

/** The owners of a leaf: the operators, also as clients of each other, or all pods that they run. */
export type LeafName = 'server' | 'client'
export const leafNames = ['server', 'client'] as const

export interface Authority {
  readonly issuing: Issuer
  /** The authority that is trusted already and issues after `issuing`. */
  readonly next: Issuer | undefined
  /** The earlier authorities, which stay trusted because leaves issued by them may be in use. */
  readonly old: readonly KnownCertificate[]
}

export interface KnownCertificate {
  /** The fingerprint of the certificate. */
  readonly id: string
  readonly pem: string
  readonly issuedAtMs: number
  readonly expiresAtMs: number
}

export interface Issuer extends KnownCertificate {
  /** The key in PEM, a secret; undefined when it is lost. */
  readonly key: string | undefined
}

/** A Secret with a leaf and the authorities that its readers trust. */
export interface LeafSecret {
  /** undefined if no usable certificate exists. */
  readonly leaf: Leaf | undefined
  /** The authorities that a reader trusts, in order. */
  readonly trusted: readonly KnownCertificate[]
  /** The time since which the Secret has had these authorities; undefined if its time is not credible. */
  readonly trustedSinceMs: number | undefined
}

export interface Leaf extends KnownCertificate {
  /** The id of the authority that signed it, if that is known or its Secret trusts it; otherwise empty. */
  readonly issuerId: string
  /** Whether it has the desired names and usage. */
  readonly hasWantedNames: boolean
}

/** Returns the authorities that every reader should trust, in their order in a Secret. */
export function trustedBy({ issuing, next, old }: Authority): readonly KnownCertificate[] {
  return [issuing, ...(next ? [next] : []), ...old]
}
