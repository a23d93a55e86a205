/** What the three Secrets hold, once their content was read and judged. Nothing in it refers to a clock. */
export interface CertificateState {
  /** undefined when there is no Secret of it, or none whose content can be used. */
  readonly authority: Authority | undefined
  readonly leaves: Readonly<Record<LeafName, LeafSecret | undefined>>
}

/** Who shows it: the operators (to each other, too), or all pods that they run. */
export type LeafName = 'server' | 'client'
export const leafNames = ['server', 'client'] as const

export interface Authority {
  readonly issuing: Issuer
  /** Trusted already, and issues after `issuing`. */
  readonly next: Issuer | undefined
  /** Trusted still: leaves may be about that they issued. */
  readonly old: readonly KnownCertificate[]
}

export interface KnownCertificate {
  /** The same for the same certificate alone. */
  readonly id: string
  readonly pem: string
  readonly issuedAtMs: number
  readonly expiresAtMs: number
}

export interface Issuer extends KnownCertificate {
  /** PEM, a secret; undefined when it is lost. */
  readonly key: string | undefined
}

/** A Secret that a leaf and its readers' trust come from. */
export interface LeafSecret {
  /** undefined if no usable certificate exists. */
  readonly leaf: Leaf | undefined
  /** The authorities that a reader trusts, in order. */
  readonly trusted: readonly KnownCertificate[]
  /** The time since which the Secret has had these authorities; undefined if its time is not credible. */
  readonly trustedSinceMs: number | undefined
}

export interface Leaf extends KnownCertificate {
  /** The authority that signed it, if it is a known one or its Secret trusts it; else empty. */
  readonly issuerId: string
  /** Whether it has the names that are wanted now. */
  readonly hasWantedNames: boolean
}

/** What every reader is to trust, in the order in which a Secret lists it. */
export function trustedBy({ issuing, next, old }: Authority): readonly KnownCertificate[] {
  return [issuing, ...(next ? [next] : []), ...old]
}
