import type { IncomingHttpHeaders } from 'node:http'
import type { ReadHeader } from '@tollway/chassis/tracing.ts'
import type { Metadata } from '@tollway/grpc/server.ts'

/** Reads the parent of a call from its gRPC metadata; values of bytes are none. */
export function fromMetadata(metadata: Metadata): ReadHeader {
  return name => {
    const values = metadata.get(name)
    if (values === undefined) return undefined
    const [first] = values
    if (values.length === 1) return typeof first === 'string' ? first : undefined
    return values.filter(value => typeof value === 'string').join(',')
  }
}

/** Reads the parent of a call from its HTTP headers. */
export function fromHttpHeaders(headers: IncomingHttpHeaders): ReadHeader {
  return name => {
    const value = headers[name]
    return Array.isArray(value) ? value.join(',') : value
  }
}
