import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { RateLimitRequestSchema } from '@tollway/proto/envoy/service/ratelimit/v3/rls'

/** A question to the service, as gRPC and as HTTP ask it. */
export interface Question {
  readonly domain: string
  readonly descriptors: readonly {
    readonly entries: readonly { readonly key: string; readonly value: string }[]
  }[]
}

/** A message of gRPC: no compression, its length, its bytes. */
function grpcMessage(bytes: Uint8Array): Buffer {
  const message = Buffer.allocUnsafe(5 + bytes.length)
  message[0] = 0
  message.writeUInt32BE(bytes.length, 1)
  message.set(bytes, 5)
  return message
}

/** Request bodies are made once, so that making them is not what is measured. */
export function grpcRequest(question: Question): Buffer {
  const shape = question as MessageInitShape<typeof RateLimitRequestSchema>
  return grpcMessage(toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, shape)))
}

/** A whole POST of `/json`. */
export function jsonRequest(question: Question): Buffer {
  const body = JSON.stringify(question)
  const head = 'POST /json HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n'
  return Buffer.from(`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
}

/** A whole GET with the header that Envoy makes the descriptor `user` from. */
export function userRequest(question: Question): Buffer {
  const user = question.descriptors[0]?.entries[0]?.value
  return Buffer.from(`GET / HTTP/1.1\r\nhost: bench\r\nx-user: ${user}\r\n\r\n`)
}

/** An endless row of numbers from 0 to `count - 1`, uniform, and the same in every run. */
export function uniform(count: number): () => number {
  let state = 0x9e3779b9
  return () => {
    // Xorshift: a few operations, for it is called once a request.
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % count
  }
}
