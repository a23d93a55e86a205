import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { RateLimitRequestSchema } from '@tollway/proto/envoy/service/ratelimit/v3/rls'

/** A question to the service, for gRPC and for HTTP. */
export interface Question {
  readonly domain: string
  readonly descriptors: readonly {
    readonly entries: readonly { readonly key: string; readonly value: string }[]
  }[]
}

/** Returns a message of gRPC: no compression, its length, its bytes. */
export function grpcMessage(bytes: Uint8Array): Buffer {
  const message = Buffer.allocUnsafe(5 + bytes.length)
  message[0] = 0
  message.writeUInt32BE(bytes.length, 1)
  message.set(bytes, 5)
  return message
}

/** Request bodies are encoded once, so that the encoding is not measured. */
export function grpcRequest(question: Question): Buffer {
  const shape = question as MessageInitShape<typeof RateLimitRequestSchema>
  return grpcMessage(toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, shape)))
}

/** Returns a complete POST of `/json`. */
export function jsonRequest(question: Question): Buffer {
  const body = JSON.stringify(question)
  const head = 'POST /json HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n'
  return Buffer.from(`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
}

/** Returns a complete GET with the header that Envoy converts to the descriptor `user`. */
export function userRequest(question: Question): Buffer {
  const user = question.descriptors[0]?.entries[0]?.value
  return Buffer.from(`GET / HTTP/1.1\r\nhost: bench\r\nx-user: ${user}\r\n\r\n`)
}

/** Returns a function for uniform numbers from 0 to `count - 1`, the same in every run. */
export function uniform(count: number): () => number {
  let state = 0x9e3779b9
  return () => {
    // Xorshift: only a few operations, since it is called for each request.
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % count
  }
}
