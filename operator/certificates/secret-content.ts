import { X509Certificate } from 'node:crypto'
import { parseCertificates, parseKey } from '@tollway/chassis/net/tls.ts'
import {
  type Authority,
  type CertificateState,
  type Issuer,
  type KnownCertificate,
  type Leaf,
  type LeafName,
  type LeafSecret,
  trustedBy,
} from './certificate-state.ts'
import { backdateMs, type CertificateIdentity, isOwnAuthority, type LeafOptions, purposes } from './issue.ts'

/**
 * The data of the three Secrets. The authority's Secret has `ca.crt` and `ca.key` (issuing now), `next.crt`
 * and `next.key` (issuing after a rotation), and `old.crt` with any number of earlier certificates. The
 * Secret of a leaf certificate has `tls.crt`, `tls.key`, the authorities that its readers trust as `ca.crt`,
 * and `trusted-since`, the time at which these authorities were published. Missing entries count as empty.
 */
export interface SecretContents {
  readonly authority: SecretData | undefined
  readonly server: SecretData | undefined
  readonly client: SecretData | undefined
}

export type LeafSpec = Pick<LeafOptions, 'dnsNames' | 'usage'>

interface ReadOptions {
  readonly leafSpecs: Readonly<Record<LeafName, LeafSpec>>
  readonly nowMs: number
}

/** Parses the Secrets. Each problem has the form `authority: ca.key: CAUSE`, and never quotes the content. */
export function readSecrets(
  contents: SecretContents,
  options: ReadOptions,
): { readonly state: CertificateState; readonly problems: readonly string[] } {
  const problems: string[] = []
  const openReader = (secret: keyof SecretContents) =>
    createReader(contents[secret], problem => problems.push(`${secret}: ${problem}`))
  const authority = contents.authority && readAuthority(openReader('authority'))
  const known = authority ? trustedBy(authority) : []
  const leaf = (name: LeafName) => contents[name] && readLeaf(openReader(name), known, options, name)
  return { state: { authority, leaves: { server: leaf('server'), client: leaf('client') } }, problems }
}

const toPem = (certificates: readonly X509Certificate[]) => certificates.map(one => one.toString()).join('')

/** Returns the credentials in a leaf's Secret; undefined if they are missing or unusable. */
export function readCredentials(
  data: SecretData | undefined,
): (CertificateIdentity & { ca: string }) | undefined {
  const reader = createReader(data, () => {})
  const identity = reader.identity('tls')
  const trusted = reader.certificates('ca.crt')
  if (identity === undefined || trusted.length === 0) return undefined
  // With another issuer, `tls.crt` may be a chain: the leaf certificate, then intermediate authorities.
  const cert = toPem(reader.certificates('tls.crt'))
  return { cert, key: identity.key, ca: toPem(trusted) }
}

export function authorityContent({ issuing, next, old }: Authority): SecretData {
  return {
    'ca.crt': issuing.pem,
    'ca.key': issuing.key ?? '',
    'next.crt': next?.pem ?? '',
    'next.key': next?.key ?? '',
    'old.crt': toBundle(old),
  }
}

export function leafContent(
  { cert, key }: CertificateIdentity,
  trusted: readonly KnownCertificate[],
  trustedSinceMs: number,
): SecretData {
  const since = new Date(trustedSinceMs).toISOString()
  return { 'tls.crt': cert, 'tls.key': key, 'ca.crt': toBundle(trusted), 'trusted-since': since }
}

export function toIssuer({ cert, key }: CertificateIdentity): Issuer {
  return { ...toKnown(new X509Certificate(cert)), key }
}

const toBundle = (certificates: readonly KnownCertificate[]) => certificates.map(({ pem }) => pem).join('')

type SecretReader = ReturnType<typeof createReader>

/**
 * Returns functions that read entries. Missing, empty and unusable entries yield undefined or an empty list;
 * unusable ones are also reported to `onProblem`.
 */
function createReader(data: SecretData | undefined, onProblem: (problem: string) => void) {
  const text = (entry: string) => data?.[entry] ?? ''

  function attempt<T>(entry: string, parse: (text: string) => T): T | undefined {
    if (text(entry) === '') return undefined
    try {
      return parse(text(entry))
    } catch (error) {
      onProblem(`${entry}: ${(error as Error).message}`)
      return undefined
    }
  }

  const certificates = (entry: string): readonly X509Certificate[] => attempt(entry, parseCertificates) ?? []

  function key(entry: string, certificate: X509Certificate): string | undefined {
    const found = attempt(entry, parseKey)
    if (found === undefined || certificate.checkPrivateKey(found)) return found && text(entry)
    onProblem(`${entry}: is not the key of the certificate beside it`)
    return undefined
  }

  return {
    text,
    certificates,
    key,
    onProblem,
    /**
     * Returns the certificate `NAME.crt` and its key `NAME.key`; undefined unless both are usable and match.
     */
    identity(name: string) {
      const [certificate] = certificates(`${name}.crt`)
      const ownKey = certificate && key(`${name}.key`, certificate)
      return certificate && ownKey !== undefined ? { certificate, key: ownKey } : undefined
    },
  }
}

function readAuthority(reader: SecretReader): Authority | undefined {
  const [certificate] = reader.certificates('ca.crt')
  if (certificate === undefined) return undefined
  if (!certificate.ca) {
    reader.onProblem('ca.crt: is not the certificate of an authority')
    return undefined
  }
  const next = reader.identity('next')
  return {
    issuing: { ...toKnown(certificate), key: issuingKey(reader, 'ca.key', certificate) },
    next:
      next && issuingKey(reader, 'next.key', next.certificate) !== undefined
        ? { ...toKnown(next.certificate), key: next.key }
        : undefined,
    old: reader.certificates('old.crt').map(toKnown),
  }
}

/**
 * Returns the key of an authority; undefined if the operator did not create the authority. Such an authority
 * issues no leaf certificates, but stays trusted until a rotation replaces it.
 */
function issuingKey(reader: SecretReader, entry: string, certificate: X509Certificate): string | undefined {
  const key = reader.key(entry, certificate)
  if (key === undefined || isOwnAuthority(certificate)) return key
  reader.onProblem(`${entry}: belongs to an authority that the operator did not make`)
  return undefined
}

/** `trusted-since` is accepted up to this far in the future, because clocks of machines differ. */
const maxAheadMs = 60_000

function readLeaf(
  reader: SecretReader,
  known: readonly KnownCertificate[],
  { leafSpecs, nowMs }: ReadOptions,
  name: LeafName,
): LeafSecret {
  const trusted = reader.certificates('ca.crt').map(toKnown)
  const identity = reader.identity('tls')
  const sinceMs = Date.parse(reader.text('trusted-since'))
  return {
    leaf: identity && toLeaf(identity.certificate, [...known, ...trusted], leafSpecs[name]),
    trusted,
    trustedSinceMs: sinceMs <= nowMs + maxAheadMs ? sinceMs : undefined,
  }
}

function toKnown(certificate: X509Certificate): KnownCertificate {
  return {
    id: certificate.fingerprint256,
    pem: certificate.toString(),
    issuedAtMs: certificate.validFromDate.getTime() + backdateMs,
    expiresAtMs: certificate.validToDate.getTime(),
  }
}

function toLeaf(
  certificate: X509Certificate,
  authorities: readonly KnownCertificate[],
  { dnsNames, usage }: LeafSpec,
): Leaf {
  const issuer = authorities.find(({ pem }) => {
    const authority = new X509Certificate(pem)
    return certificate.checkIssued(authority) && certificate.verify(authority.publicKey)
  })
  const wantedNames = dnsNames.map(name => `DNS:${name}`).join(', ')
  const wantedUsage = usage.map(kind => purposes[kind]).join()
  return {
    ...toKnown(certificate),
    issuerId: issuer?.id ?? '',
    hasWantedNames:
      certificate.subjectAltName === wantedNames && certificate.keyUsage?.join() === wantedUsage,
  }
}

/** The Secrets of one namespace, by name. */
export interface SecretStore {
  /** Resolves with undefined if the Secret does not exist. */
  get(name: string, signal: AbortSignal): Promise<StoredSecret | undefined>
  /**
   * Sets these entries. Creates the Secret if `known` is undefined; otherwise changes it only if it is still
   * at `known.version`. Rejects with `code` 409 when another writer was faster.
   */
  put(
    name: string,
    data: SecretData,
    known: StoredSecret | undefined,
    signal: AbortSignal,
  ): Promise<StoredSecret>
}

export interface StoredSecret {
  readonly data: SecretData
  /** The version of the Secret. Every write changes it. */
  readonly version: string
}

/** The entries of a Secret by name, decoded to text. */
export type SecretData = Readonly<Record<string, string>>
