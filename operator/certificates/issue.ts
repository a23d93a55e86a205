import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from 'node:crypto'

/**
 * The distinguished encoding rules (DER) of ASN.1, X.690, as far as certificates need them. The functions of
 * this part return encoded values; the sections in parentheses are those of X.690.
 */

const tags = {
  BOOLEAN: 0x01,
  INTEGER: 0x02,
  BIT_STRING: 0x03,
  OCTET_STRING: 0x04,
  OBJECT_IDENTIFIER: 0x06,
  UTF8_STRING: 0x0c,
  UTC_TIME: 0x17,
  GENERALIZED_TIME: 0x18,
  SEQUENCE: 0x30,
  SET: 0x31,
}

/** Encodes a tag, the length in the fewest bytes, and the content (8.1.3 and 10.1). */
function encode(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  return Buffer.concat([Buffer.of(tag), encodeLength(content.length), content])
}

function encodeLength(length: number): Buffer {
  if (length < 0x80) return Buffer.of(length)
  const digits = minimalBytes(length)
  return Buffer.concat([Buffer.of(0x80 | digits.length), digits])
}

function minimalBytes(value: number): Buffer {
  const hex = value.toString(16)
  return Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex')
}

const sequence = (...parts: readonly Uint8Array[]) => encode(tags.SEQUENCE, ...parts)
const set = (...parts: readonly Uint8Array[]) => encode(tags.SET, ...parts)
const octetString = (content: Uint8Array) => encode(tags.OCTET_STRING, content)
const utf8String = (text: string) => encode(tags.UTF8_STRING, Buffer.from(text))
const isTrue = encode(tags.BOOLEAN, Buffer.of(0xff))

/** Encodes `[number] EXPLICIT`: wraps an encoded value, whose own tag stays. */
const explicit = (number: number, content: Uint8Array) => encode(0xa0 | number, content)

/** Encodes `[number] IMPLICIT` of a primitive type: the number replaces the type's own tag. */
const implicit = (number: number, content: Uint8Array) => encode(0x80 | number, content)

/**
 * Encodes a non-negative integer from its big-endian bytes. A zero byte is put first if the integer would
 * otherwise read as negative (8.3).
 */
export function unsignedInteger(bytes: Uint8Array): Buffer {
  const start = bytes.findIndex(byte => byte !== 0)
  const digits = start === -1 ? Buffer.of(0) : bytes.subarray(start)
  const sign = (digits[0] ?? 0) >= 0x80 ? Buffer.of(0) : Buffer.of()
  return encode(tags.INTEGER, sign, digits)
}

/** Encodes bits. The last `unusedBits` bits of the last byte do not count. */
const bitString = (bytes: Uint8Array, unusedBits = 0) => encode(tags.BIT_STRING, Buffer.of(unusedBits), bytes)

/**
 * Encodes an identifier such as `2.5.29.19`. The first two numbers share one byte; each other number has
 * seven bits per byte (8.19).
 */
export function objectIdentifier(dotted: string): Buffer {
  const [first = 0, second = 0, ...others] = dotted.split('.').map(Number)
  const bytes = [first * 40 + second, ...others].flatMap(number => {
    const digits = [number & 0x7f]
    for (let rest = number >> 7; rest > 0; rest >>= 7) digits.unshift(0x80 | (rest & 0x7f))
    return digits
  })
  return encode(tags.OBJECT_IDENTIFIER, Buffer.from(bytes))
}

const firstYearOfGeneralizedTime = 2050

/**
 * Encodes a time in whole seconds as UTCTime before 2050 and as GeneralizedTime from then on (RFC 5280,
 * 4.1.2.5).
 */
export function time(ms: number): Buffer {
  const date = new Date(ms)
  const digits = `${date.toISOString().replace(/[-:T]|\.\d+Z$/g, '')}Z`
  return date.getUTCFullYear() < firstYearOfGeneralizedTime
    ? encode(tags.UTC_TIME, Buffer.from(digits.slice(2)))
    : encode(tags.GENERALIZED_TIME, Buffer.from(digits))
}

/**
 * X.509 certificates by the profile of RFC 5280: ECDSA on P-256 with SHA-256, with a new key for each
 * certificate. Keys and serial numbers come only from the system's random generator, and callers cannot
 * supply them: who can predict them can forge certificates.
 */

/** A certificate and its key in PEM. The key is a secret. */
export interface CertificateIdentity {
  readonly cert: string
  readonly key: string
}

interface Validity {
  /** The time of issue. The certificate is valid from `backdateMs` before it. */
  readonly nowMs: number
  /** The end of the validity, which is rounded up to whole seconds. */
  readonly expiresAtMs: number
}

export interface LeafOptions extends Validity {
  /**
   * The subject alternative names, which clients check. The first one is also the common name, which only
   * people read.
   */
  readonly dnsNames: readonly string[]
  /** The sides of a connection on which the certificate is valid. */
  readonly usage: readonly ('server' | 'client')[]
}

/** A certificate is valid from this time before its issue, because the clocks of some machines are slow. */
export const backdateMs = 5 * 60_000

/**
 * Issues a self-signed authority that may sign leaf certificates but no authorities. The first 8 digits of
 * its serial number make its name unique.
 */
export function issueAuthority(name: string, validity: Validity): CertificateIdentity {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const serial = newSerial()
  const subject = commonName(`${name} ${serial.toString('hex').slice(0, 8)}`)
  const issuer: Issuer = { subject, publicKey, privateKey }
  const cert = issue(issuer, { serial, subject, publicKey, validity }, [
    basicConstraints(true),
    keyUsage('authority'),
    subjectKeyId(publicKey),
  ])
  return { cert, key: exportKey(privateKey) }
}

/** @throws Error if `issueAuthority` did not issue the authority, or `key` does not belong to `cert` */
export function issueLeaf(authority: CertificateIdentity, options: LeafOptions): CertificateIdentity {
  const issuer = readIssuer(authority)
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const subject = commonName(options.dnsNames[0] ?? '')
  const cert = issue(issuer, { serial: newSerial(), subject, publicKey, validity: options }, [
    basicConstraints(false),
    keyUsage('leaf'),
    extendedKeyUsage(options.usage),
    subjectAltName(options.dnsNames),
    subjectKeyId(publicKey),
    authorityKeyId(issuer.publicKey),
  ])
  return { cert, key: exportKey(privateKey) }
}

/**
 * Returns whether `issueLeaf` can use this certificate as its authority. An authority of another program may
 * encode its name in a form that `ownName` does not read.
 */
export function isOwnAuthority(certificate: X509Certificate): boolean {
  return certificate.ca && ownName(certificate) !== undefined
}

interface Issuer {
  readonly subject: Buffer
  readonly publicKey: KeyObject
  readonly privateKey: KeyObject
}

function readIssuer({ cert, key }: CertificateIdentity): Issuer {
  const certificate = new X509Certificate(cert)
  const name = ownName(certificate)
  const privateKey = createPrivateKey(key)
  if (!certificate.ca || name === undefined)
    throw new Error('authority: is not a certificate that this operator made for an authority')
  if (!certificate.checkPrivateKey(privateKey))
    throw new Error('authority: the key does not belong to the certificate')
  return { subject: commonName(name), publicKey: createPublicKey(privateKey), privateKey }
}

const ownName = ({ subject }: X509Certificate) => /^CN=([\w .:-]{1,64})$/.exec(subject)?.[1]

const serialBytes = 16

/** Returns a random serial number, positive and always 16 bytes long (RFC 5280, 4.1.2.2). */
function newSerial(): Buffer {
  const serial = randomBytes(serialBytes)
  serial[0] = ((serial[0] ?? 0) & 0x3f) | 0x40
  return serial
}

interface Subject {
  readonly serial: Buffer
  readonly subject: Buffer
  readonly publicKey: KeyObject
  readonly validity: Validity
}

const ecdsaWithSha256 = sequence(objectIdentifier('1.2.840.10045.4.3.2'))
const version3 = explicit(0, unsignedInteger(Buffer.of(2)))
const secondMs = 1000

function issue(issuer: Issuer, of: Subject, extensions: readonly Buffer[]): string {
  const { nowMs, expiresAtMs } = of.validity
  const body = sequence(
    version3,
    unsignedInteger(of.serial),
    ecdsaWithSha256,
    issuer.subject,
    sequence(time(nowMs - backdateMs), time(Math.ceil(expiresAtMs / secondMs) * secondMs)),
    of.subject,
    of.publicKey.export({ type: 'spki', format: 'der' }),
    explicit(3, sequence(...extensions)),
  )
  return toPem(sequence(body, ecdsaWithSha256, bitString(sign('sha256', body, issuer.privateKey))))
}

/** Encodes as PEM in lines of 64 characters, because some libraries reject longer lines (RFC 7468, 2). */
function toPem(der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}

function exportKey(key: KeyObject): string {
  return String(key.export({ type: 'pkcs8', format: 'pem' }))
}

const maxCommonNameChars = 64

function commonName(name: string): Buffer {
  return sequence(set(sequence(objectIdentifier('2.5.4.3'), utf8String(name.slice(0, maxCommonNameChars)))))
}

/**
 * Encodes an extension. A reader that does not know a critical extension must reject the certificate (RFC
 * 5280, 4.2).
 */
function extension(id: string, content: Buffer, { critical = false } = {}): Buffer {
  return sequence(objectIdentifier(id), ...(critical ? [isTrue] : []), octetString(content))
}

function basicConstraints(isAuthority: boolean): Buffer {
  const noAuthorityBelow = unsignedInteger(Buffer.of(0))
  const content = isAuthority ? sequence(isTrue, noAuthorityBelow) : sequence()
  return extension('2.5.29.19', content, { critical: true })
}

/** The usage is keyCertSign and cRLSign for an authority, digitalSignature for a leaf certificate. */
function keyUsage(of: 'authority' | 'leaf'): Buffer {
  const bits =
    of === 'authority' ? bitString(Buffer.of(0b0000_0110), 1) : bitString(Buffer.of(0b1000_0000), 7)
  return extension('2.5.29.15', bits, { critical: true })
}

/** The object identifiers of the extended key usages (RFC 5280, 4.2.1.12). */
export const purposes = { server: '1.3.6.1.5.5.7.3.1', client: '1.3.6.1.5.5.7.3.2' }

function extendedKeyUsage(usage: LeafOptions['usage']): Buffer {
  return extension('2.5.29.37', sequence(...usage.map(kind => objectIdentifier(purposes[kind]))))
}

function subjectAltName(dnsNames: readonly string[]): Buffer {
  const names = dnsNames.map(name => implicit(2, Buffer.from(name, 'ascii')))
  return extension('2.5.29.17', sequence(...names))
}

function subjectKeyId(key: KeyObject): Buffer {
  return extension('2.5.29.14', octetString(keyId(key)))
}

function authorityKeyId(key: KeyObject): Buffer {
  return extension('2.5.29.35', sequence(implicit(0, keyId(key))))
}

/** The length of an uncompressed P-256 point at the end of `spki`: a format byte and two coordinates. */
const pointBytes = 65

/** Returns the key identifier by RFC 7093 (2), method 1. */
function keyId(key: KeyObject): Buffer {
  const point = key.export({ type: 'spki', format: 'der' }).subarray(-pointBytes)
  return createHash('sha256').update(point).digest().subarray(0, 20)
}
