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

/** The next write, or the time of the next check if no write is due. `why` is for the log. */
export type CertificateAction =
  | {
      readonly kind: 'write-authority'
      /** The authority that issues leaf certificates; `new` to create one. */
      readonly issuing: Issuer | 'new'
      readonly next: Issuer | 'new' | undefined
      readonly old: readonly KnownCertificate[]
      readonly why: string
    }
  | {
      readonly kind: 'write-leaf'
      readonly name: LeafName
      /** Whether `authority.issuing` issues a new certificate, or the present one is kept. */
      readonly certificate: 'new' | 'keep'
      readonly authority: Authority
      /** The end of validity of a new certificate; ignored for `keep`. */
      readonly expiresAtMs: number
      readonly trustedSinceMs: number
      readonly why: string
    }
  | { readonly kind: 'wait'; readonly untilMs: number }

export interface CertificateTiming {
  readonly authorityLifeMs: number
  readonly leafLifeMs: number
  /** The time within which every reader has received a written Secret. */
  readonly spreadMs: number
}

const dayMs = 86_400_000

export const defaultCertificateTiming: CertificateTiming = {
  authorityLifeMs: 365 * dayMs,
  leafLifeMs: 30 * dayMs,
  // The kubelet reads Secrets every minute, and the copy that it reads may be another minute old.
  spreadMs: 5 * 60_000,
}

/** A certificate is renewed after this share of its validity. */
const renewAfter = 2 / 3

/** At most this many earlier authorities stay trusted; the oldest are removed first. */
const maxOldAuthorities = 3

/**
 * @throws Error when a certificate could expire before its replacement has reached every reader. The last
 *   third of a leaf's validity must be longer than `spreadMs`. The last third of an authority's validity must
 *   be longer than twice `spreadMs`, and its whole validity longer than two validities of a leaf.
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
 * Returns the next write. Writes rotate the authority and the leaf certificates before they expire. If each
 * reader receives every write within `spreadMs`, no reader ever rejects the certificate of another. A
 * rotation of the authority has three steps:
 *
 * 1. A new authority is created and published: every reader trusts both.
 * 2. When all readers trust the new one, it issues both leaf certificates.
 * 3. When all readers have these certificates, the old authority is removed.
 *
 * The step follows from the Secrets alone, so the rotation continues after a crash between any two writes. An
 * authority whose key is lost is replaced in the same way, because readers still trust it. Only if a leaf
 * certificate is missing or expired does the new authority issue before all readers trust it.
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
 * Called when the authority's Secret does not exist. Returns an authority without a key: the one that issued
 * a valid leaf certificate, because every reader still trusts it. Up to `maxOldAuthorities` other valid
 * authorities in the leaves' Secrets stay trusted, because leaf certificates that they issued may be in use
 * during a rotation.
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

/**
 * Returns whether the issuing key is lost and a leaf certificate is missing or expired, so that the operators
 * or the pods cannot connect.
 */
function isNeededNow(issuing: Issuer, leaves: CertificateState['leaves'], nowMs: number): boolean {
  if (issuing.key !== undefined) return false
  return leafNames.some(name => {
    const leaf = leaves[name]?.leaf
    return leaf === undefined || isExpired(leaf, nowMs)
  })
}

/** Returns whether both leaves' Secrets have published all trusted authorities for at least `spreadMs`. */
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

/** Returns whether the issuing authority issued both leaf certificates at least `spreadMs` ago. */
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

/**
 * The time of issue in a certificate may be this much too early, because it is rounded down to whole seconds.
 */
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
  const isPublished = secret !== undefined && publishesAuthorities(secret, authority)
  const trustedSinceMs = isPublished && secret.trustedSinceMs !== undefined ? secret.trustedSinceMs : nowMs
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
  if (!isPublished) return write('keep', 'the trusted authorities have changed')
  if (secret.trustedSinceMs === undefined)
    return write('keep', 'the entry trusted-since is missing or invalid')
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
  // A leaf certificate never outlives its authority, so near the end of the authority a renewal would gain no
  // time.
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
 * Returns the time of the renewal. The shorter one of the configured validity and the certificate's validity
 * counts.
 */
function renewalMs({ issuedAtMs, expiresAtMs }: KnownCertificate, lifeMs: number): number {
  return issuedAtMs + Math.min(lifeMs, expiresAtMs - issuedAtMs) * renewAfter
}

/** Returns when to call `plan` again: until then its result stays the same, unless the Secrets change. */
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
