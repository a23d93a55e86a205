import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import type { ServerTls } from '../../../server.ts'

/** A certificate authority for tests. */
export interface Authority {
  /** The certificate of the authority in PEM. */
  readonly ca: string
  /** Issues a certificate for these DNS names. In the result, `ca` is the authority's certificate. */
  issue(...dnsNames: readonly string[]): Required<ReturnType<ServerTls['credentials']>>
}

const hourMs = 3_600_000

/**
 * Creates an authority with a new key. The certificates have only the fields that OpenSSL requires (RFC
 * 5280).
 */
export function createAuthority(name: string): Authority {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const issuer: Issuer = { name, privateKey }
  const ca = certificate(issuer, name, publicKey, [isAuthority])
  return {
    ca,
    issue(...dnsNames) {
      const own = generateKeyPairSync('ec', { namedCurve: 'P-256' })
      const cert = certificate(issuer, dnsNames[0] ?? '', own.publicKey, [subjectAltName(dnsNames)])
      return { ca, cert, key: String(own.privateKey.export({ type: 'pkcs8', format: 'pem' })) }
    },
  }
}

interface Issuer {
  readonly name: string
  readonly privateKey: KeyObject
}

let lastSerial = 0

function certificate(
  issuer: Issuer,
  subject: string,
  publicKey: KeyObject,
  extensions: readonly Buffer[],
): string {
  lastSerial += 1
  const nowMs = Date.now()
  const body = der(
    tags.SEQUENCE,
    der(tags.CONTEXT_0, integer(2)),
    integer(lastSerial),
    ecdsaWithSha256,
    commonName(issuer.name),
    der(tags.SEQUENCE, utcTime(nowMs - hourMs), utcTime(nowMs + hourMs)),
    commonName(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(tags.CONTEXT_3, der(tags.SEQUENCE, ...extensions)),
  )
  const signature = der(tags.BIT_STRING, Buffer.of(0), sign('sha256', body, issuer.privateKey))
  const whole = der(tags.SEQUENCE, body, ecdsaWithSha256, signature)
  // Some libraries reject longer lines (RFC 7468, 2).
  const lines = whole.toString('base64').replace(/.{64}/g, '$&\n')
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`
}

const tags = {
  BOOLEAN: 0x01,
  INTEGER: 0x02,
  BIT_STRING: 0x03,
  OCTET_STRING: 0x04,
  OBJECT_IDENTIFIER: 0x06,
  UTF8_STRING: 0x0c,
  UTC_TIME: 0x17,
  SEQUENCE: 0x30,
  SET: 0x31,
  DNS_NAME: 0x82,
  CONTEXT_0: 0xa0,
  CONTEXT_3: 0xa3,
}

/** Encodes a tag, the length in as few bytes as possible, and the content (X.690, 8.1 and 10.1). */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  if (length < 0x80) return Buffer.concat([Buffer.of(tag, length), content])
  if (length < 0x100) return Buffer.concat([Buffer.of(tag, 0x81, length), content])
  return Buffer.concat([Buffer.of(tag, 0x82, length >> 8, length & 0xff), content])
}

/** Encodes an integer from 0 to 32,767. */
function integer(value: number): Buffer {
  const bytes = value < 0x80 ? Buffer.of(value) : Buffer.of(value >> 8, value & 0xff)
  return der(tags.INTEGER, bytes)
}

const objectId = (hex: string) => der(tags.OBJECT_IDENTIFIER, Buffer.from(hex, 'hex'))
const utcTime = (ms: number) =>
  der(tags.UTC_TIME, Buffer.from(new Date(ms).toISOString().replace(/^..|[-:T]|\.\d+/g, '')))
const ecdsaWithSha256 = der(tags.SEQUENCE, objectId('2a8648ce3d040302'))
const commonName = (name: string) =>
  der(
    tags.SEQUENCE,
    der(tags.SET, der(tags.SEQUENCE, objectId('550403'), der(tags.UTF8_STRING, Buffer.from(name)))),
  )
const isAuthority = der(
  tags.SEQUENCE,
  objectId('551d13'),
  der(tags.BOOLEAN, Buffer.of(0xff)),
  der(tags.OCTET_STRING, der(tags.SEQUENCE, der(tags.BOOLEAN, Buffer.of(0xff)))),
)
const subjectAltName = (dnsNames: readonly string[]) => {
  const names = dnsNames.map(name => der(tags.DNS_NAME, Buffer.from(name)))
  return der(tags.SEQUENCE, objectId('551d11'), der(tags.OCTET_STRING, der(tags.SEQUENCE, ...names)))
}
