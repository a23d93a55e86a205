import { encodeHeaderBlock } from '../http2/hpack/hpack-encoder.ts'
import { reservedNames } from '../reserved-names.ts'
import type { Metadata } from '../server.ts'

type Field = readonly [name: string, value: string]

const metadataName = /^[0-9a-z_.-]+$/
const printableAscii = /^[ -~]*$/

/**
 * Decodes fields, in which names and values alternate. Values of `-bin` are decoded from base64; fields of
 * the transport are left out.
 */
export function decodeMetadata(fields: readonly string[]): Metadata {
  const metadata = new Map<string, (string | Uint8Array)[]>()
  for (let index = 0; index < fields.length; index += 2) {
    const name = fields[index] ?? ''
    if (reservedNames.has(name)) continue
    const value = fields[index + 1] ?? ''
    const values = name.endsWith('-bin') ? bytesValues(value) : [value]
    const known = metadata.get(name)
    if (known) known.push(...values)
    else metadata.set(name, values)
  }
  return metadata
}

/**
 * Decodes one or more values: senders may join them by commas, which base64 does not contain, and may omit
 * the padding.
 */
function bytesValues(value: string): Uint8Array[] {
  return value.split(',').map(part => Buffer.from(part, 'base64'))
}

/** The size as RFC 9113 (6.5.2) counts it, without the fields of the transport. */
export function metadataBytes(fields: readonly string[]): number {
  let bytes = 0
  for (let index = 0; index < fields.length; index += 2) {
    const name = fields[index] ?? ''
    if (!reservedNames.has(name)) bytes += 32 + name.length + (fields[index + 1] ?? '').length
  }
  return bytes
}

/** @throws Error for a name that is reserved or invalid, and for a text value that is not printable ASCII */
function encodeMetadata(metadata: Metadata): Field[] {
  const fields: Field[] = []
  for (const [givenName, values] of metadata) {
    const name = givenName.toLowerCase()
    if (reservedNames.has(name)) throw new Error(`metadata "${name}": the name belongs to the transport`)
    if (!metadataName.test(name)) throw new Error(`metadata "${name}": the name has other than a-z 0-9 _ . -`)
    for (const value of values) fields.push([name, encodeValue(name, value)])
  }
  return fields
}

function encodeValue(name: string, value: string | Uint8Array): string {
  if (typeof value !== 'string') {
    if (!name.endsWith('-bin')) throw new Error(`metadata "${name}": bytes need a name that ends with -bin`)
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')
  }
  if (name.endsWith('-bin')) return Buffer.from(value).toString('base64')
  if (!printableAscii.test(value)) throw new Error(`metadata "${name}": the value is not printable ASCII`)
  // RFC 9113 (8.2.1) forbids a space at the beginning and the end.
  return value.trim()
}

const responseFields: readonly Field[] = [
  [':status', '200'],
  ['content-type', 'application/grpc'],
]

/**
 * Returns the header block before the messages; `more` are fields of the transport. Throws as
 * `encodeMetadata` does.
 */
export function encodeResponseHeaders(metadata?: Metadata, more: readonly Field[] = []): Buffer {
  return encodeHeaderBlock([...responseFields, ...more, ...(metadata ? encodeMetadata(metadata) : [])])
}

export interface WireStatus {
  readonly code: number
  readonly message: string
  readonly trailers?: Metadata
}

/** Returns the header block after the messages. Throws as `encodeMetadata` does. */
export function encodeTrailers(status: WireStatus): Buffer {
  return encodeHeaderBlock(statusFields(status))
}

/** Returns the only header block of an answer without messages. Throws as `encodeMetadata` does. */
export function encodeTrailersOnly(status: WireStatus, more: readonly Field[] = []): Buffer {
  return encodeHeaderBlock([...responseFields, ...more, ...statusFields(status)])
}

function statusFields({ code, message, trailers }: WireStatus): Field[] {
  const fields: Field[] = [['grpc-status', String(code)]]
  if (message !== '') fields.push(['grpc-message', percentEncoded(message)])
  return trailers ? [...fields, ...encodeMetadata(trailers)] : fields
}

/**
 * Encodes a status message as gRPC specifies: printable ASCII except `%` is kept, and each other byte of the
 * UTF-8 text becomes `%` and two hexadecimal digits. Spaces are encoded too if any character needs it.
 */
function percentEncoded(text: string): string {
  if (/^[ -$&-~]*$/.test(text) && text === text.trim()) return text
  let encoded = ''
  for (const byte of Buffer.from(text.toWellFormed())) {
    const plain = byte > 0x20 && byte < 0x7f && byte !== 0x25
    encoded += plain ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return encoded
}
