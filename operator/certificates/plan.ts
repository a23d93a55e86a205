import {
  type Authority,
  type CertificateState,
  type Issuer,
  type KnownCertificate,
  type LeafName,
  type LeafSecret,
  leafNames,
  trustedBy,
} from './certificate-state.ts'

/** The next write, or the time until the next check if no write is needed. `why` is for the log. */
export type CertificateAction =
  | {
      readonly kind: 'write-authority'
      /** The authority that issues; `new` to create one. */
      readonly issuing: Issuer | 'new'
      readonly next: Issuer | 'new' | undefined
      readonly old: readonly KnownCertificate[]
      readonly why: string
    }
  | {
      readonly kind: 'write-leaf'
      readonly name: LeafName
      /** The certificate; `new` for one that `authority.issuing` issues. */
      readonly certificate: 'new' | 'keep'
      readonly authority: Authority
      /** The end of the new certificate; that of `keep` does not change. */
      readonly expiresAtMs: number
      readonly trustedSinceMs: number
      readonly why: string
    }
  | { readonly kind: 'wait'; readonly untilMs: number }

export interface CertificateTiming {
  readonly authorityLifeMs: number
  readonly leafLifeMs: number
  /** The time after which every reader has the written certificates. */
  readonly spreadMs: number
}

const dayMs = 86_400_000

export const defaultCertificateTiming: CertificateTiming = {
  authorityLifeMs: 365 * dayMs,
  leafLifeMs: 30 * dayMs,
  // The kubelet reads Secrets every minute, and its copy may be another minute old.
  spreadMs: 5 * 60_000,
}

/** A certificate is renewed after this share of its life. */
const renewAfter = 2 / 3

/** The maximum of trusted earlier authorities; the oldest are removed first. */
const maxOldAuthorities = 3

/**
 * @throws Error when something would end before what replaces it has spread: a leaf's last third has to be
 * longer than one spread, an authority's longer than a leaf's life, and two spreads.
 */
export function checkTiming({ authorityLifeMs, leafLifeMs, spreadMs }: CertificateTiming): void {
  const rest = 1 - renewAfter
  if (!(spreadMs > 0 && leafLifeMs * rest > spreadMs)) {
    throw new Error(`leafLifeMs: a third of ${leafLifeMs} must be more than spreadMs, ${spreadMs}`)
  }
  if (!(authorityLifeMs * rest > 2 * spreadMs && authorityLifeMs > 2 * leafLifeMs)) {
    throw new Error(`authorityLifeMs: ${authorityLifeMs} is too short for leaves of ${leafLifeMs}`)
  }
}

/**
 * Returns the next write of a rotation. At its end both leaves are young and issued by a young authority, and
 * no reader rejects another one meanwhile, if each reads a write within `spreadMs`:
 *
 * 1. a new authority is created and published: every reader trusts both;
 * 2. when all readers have it, it issues both leaves;
 * 3. when all readers have these, the old authority is removed.
 *
 * The step follows from the Secrets alone, so the rotation continues after a crash between any two writes. An
 * authority whose key is lost is replaced in the same way, because readers still trust it; the new one issues
 * at once only if a reader would otherwise have no valid certificate.
 */
export function plan(state: CertificateState, nowMs: number, timing: CertificateTiming): CertificateAction {
  const { leaves } = state
  const authority = state.authority ?? recoverAuthority(leaves, nowMs)
  if (authority === undefined) return replaceAuthority('there is none')
  return (
    planAuthority(authority, leaves, nowMs, timing) ??
    planLeaf('server', authority, leaves, nowMs, timing) ??
    planLeaf('client', authority, leaves, nowMs, timing) ?? {
      kind: 'wait',
      untilMs: nextDueMs(authority, leaves, nowMs, timing),
    }
  )
}

/**
 * Returns the authority whose Secret is lost, from the leaves: every reader still trusts it. Up to
 * `maxOldAuthorities` other valid authorities in the leaves' Secrets stay trusted, because readers may use
 * their leaves during a rotation. Not called while the Secret exists, which alone decides about trust.
 */
function recoverAuthority(leaves: CertificateState['leaves'], nowMs: number): Authority | undefined {
  const secrets = leafNames.flatMap(name => leaves[name] ?? [])
  const trusted = secrets
    .flatMap(secret => secret.trusted)
    .filter(certificate => !isExpired(certificate, nowMs))
  const issuing = trusted.find(({ id }) =>
    secrets.some(({ leaf }) => leaf?.issuerId === id && !isExpired(leaf, nowMs)),
  )
  if (issuing === undefined) return undefined
  const others = new Map(trusted.map(certificate => [certificate.id, certificate]))
  others.delete(issuing.id)
  const old = [...others.values()].slice(0, maxOldAuthorities)
  return { issuing: { ...issuing, key: undefined }, next: undefined, old }
}

function replaceAuthority(why: string): CertificateAction {
  return { kind: 'write-authority', issuing: 'new', next: undefined, old: [], why }
}

function planAuthority(
  authority: Authority,
  leaves: CertificateState['leaves'],
  nowMs: number,
  timing: CertificateTiming,
): CertificateAction | undefined {
  const { issuing, next, old } = authority
  type Change = Partial<Omit<Authority, 'next'> & { readonly next: Issuer | 'new' | undefined }>
  const write = (change: Change, why: string): CertificateAction => ({
    kind: 'write-authority',
    ...authority,
    ...change,
    why,
  })
  const isDead = isExpired(issuing, nowMs)
  if (next !== undefined && isExpired(next, nowMs))
    return write({ next: undefined }, 'the next one has expired')
  if (next === undefined) {
    if (isDead) return replaceAuthority('it has expired')
    if (issuing.key === undefined) return write({ next: 'new' }, 'its key is lost')
    if (nowMs >= renewalMs(issuing, timing.authorityLifeMs))
      return write({ next: 'new' }, 'its renewal is due')
  } else if (isDead || hasSpread(authority, leaves, nowMs, timing) || isNeededNow(issuing, leaves, nowMs)) {
    const stillValid = [issuing, ...old].filter(certificate => !isExpired(certificate, nowMs))
    const why = isDead ? 'the previous one has expired' : 'all readers trust the next one'
    return write({ issuing: next, next: undefined, old: stillValid.slice(0, maxOldAuthorities) }, why)
  }
  if (old.length > 0 && hasReplacedOld(authority, leaves, nowMs, timing)) {
    return write({ old: [] }, 'no certificate of the old authority is in use any more')
  }
  return undefined
}

/** Returns whether the key is lost and a leaf is missing, so that its reader could not connect. */
function isNeededNow(issuing: Issuer, leaves: CertificateState['leaves'], nowMs: number): boolean {
  if (issuing.key !== undefined) return false
  return leafNames.some(name => {
    const leaf = leaves[name]?.leaf
    return leaf === undefined || isExpired(leaf, nowMs)
  })
}

/** Returns whether every reader's Secret has had every authority for long enough. */
function hasSpread(
  authority: Authority,
  leaves: CertificateState['leaves'],
  nowMs: number,
  { spreadMs }: CertificateTiming,
): boolean {
  return leafNames.every(name => {
    const secret = leaves[name]
    return (
      secret !== undefined && publishesAuthorities(secret, authority) && sinceMs(secret) + spreadMs <= nowMs
    )
  })
}

/** Returns whether every reader has had a leaf of the issuing authority for long enough. */
function hasReplacedOld(
  { issuing }: Authority,
  leaves: CertificateState['leaves'],
  nowMs: number,
  { spreadMs }: CertificateTiming,
): boolean {
  return leafNames.every(name => {
    const leaf = leaves[name]?.leaf
    return leaf?.issuerId === issuing.id && leaf.issuedAtMs + certificateSecondMs + spreadMs <= nowMs
  })
}

/** The creation time in a certificate is in whole seconds, rounded down. */
const certificateSecondMs = 1000

function planLeaf(
  name: LeafName,
  authority: Authority,
  leaves: CertificateState['leaves'],
  nowMs: number,
  timing: CertificateTiming,
): CertificateAction | undefined {
  const secret = leaves[name]
  const { issuing } = authority
  const expiresAtMs = Math.min(nowMs + timing.leafLifeMs, issuing.expiresAtMs)
  const isTold = secret !== undefined && publishesAuthorities(secret, authority)
  const trustedSinceMs = isTold && secret.trustedSinceMs !== undefined ? secret.trustedSinceMs : nowMs
  const write = (certificate: 'new' | 'keep', why: string): CertificateAction => ({
    kind: 'write-leaf',
    name,
    certificate,
    authority,
    expiresAtMs,
    trustedSinceMs,
    why,
  })
  const reason = reasonToIssue(secret, issuing, expiresAtMs, nowMs, timing)
  if (reason !== undefined) return write('new', reason)
  if (secret?.leaf === undefined) return undefined
  if (!isTold) return write('keep', 'the trusted authorities have changed')
  if (secret.trustedSinceMs === undefined) return write('keep', 'since when cannot be believed')
  return undefined
}

function reasonToIssue(
  secret: LeafSecret | undefined,
  issuing: Issuer,
  expiresAtMs: number,
  nowMs: number,
  { leafLifeMs }: CertificateTiming,
): string | undefined {
  if (issuing.key === undefined) return undefined
  const leaf = secret?.leaf
  if (leaf === undefined) return 'there is none'
  if (leaf.issuerId !== issuing.id) return 'another authority issues now'
  if (!leaf.hasWantedNames) return 'other names are wanted'
  // A leaf never outlives its authority, so a new one would end at the same time.
  const wouldLast = expiresAtMs > leaf.expiresAtMs
  return wouldLast && nowMs >= renewalMs(leaf, leafLifeMs) ? 'its renewal is due' : undefined
}

function publishesAuthorities({ trusted }: LeafSecret, authority: Authority): boolean {
  const wanted = trustedBy(authority)
  return trusted.length === wanted.length && wanted.every(({ id }, index) => trusted[index]?.id === id)
}

const sinceMs = ({ trustedSinceMs }: LeafSecret) => trustedSinceMs ?? Number.POSITIVE_INFINITY
const isExpired = ({ expiresAtMs }: KnownCertificate, nowMs: number) => nowMs >= expiresAtMs

/**
 * Returns the time of the renewal. If the configured life was shortened since the issue, the shorter one
 * applies.
 */
function renewalMs({ issuedAtMs, expiresAtMs }: KnownCertificate, lifeMs: number): number {
  return issuedAtMs + Math.min(lifeMs, expiresAtMs - issuedAtMs) * renewAfter
}

/** Returns the next time at which a condition above may change. */
function nextDueMs(
  authority: Authority,
  leaves: CertificateState['leaves'],
  nowMs: number,
  { authorityLifeMs, leafLifeMs, spreadMs }: CertificateTiming,
): number {
  const secrets = leafNames.flatMap(name => leaves[name] ?? [])
  const known = secrets.flatMap(({ leaf }) => leaf ?? [])
  const times = [
    ...trustedBy(authority).map(({ expiresAtMs }) => expiresAtMs),
    renewalMs(authority.issuing, authorityLifeMs),
    ...known.flatMap(leaf => [
      leaf.expiresAtMs,
      renewalMs(leaf, leafLifeMs),
      leaf.issuedAtMs + certificateSecondMs + spreadMs,
    ]),
    ...secrets.map(secret => sinceMs(secret) + spreadMs),
  ]
  return Math.min(...times.filter(ms => ms > nowMs))
}
