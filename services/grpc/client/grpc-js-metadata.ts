import { Metadata as GrpcJsMetadata } from '@grpc/grpc-js'
import { reservedNames } from '../reserved-names.ts'
import type { Metadata } from '../server.ts'

/**
 * Converts metadata. Throws for a name that is reserved or invalid, and for a text value that is not
 * printable ASCII.
 */
export function toGrpcJsMetadata(metadata: Metadata | undefined): GrpcJsMetadata {
  const result = new GrpcJsMetadata()
  for (const [name, values] of metadata ?? []) {
    if (name.startsWith(':') || reservedNames.has(name.toLowerCase())) {
      throw new Error(`metadata "${name}": the name belongs to the transport`)
    }
    for (const value of values) result.add(name, typeof value === 'string' ? value : asBuffer(value))
  }
  return result
}

export function fromGrpcJsMetadata(metadata: GrpcJsMetadata): Metadata {
  return new Map(Object.entries(metadata.toJSON()))
}

/** Returns the same memory as a Buffer, which grpc-js requires for bytes. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
