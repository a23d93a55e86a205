import { create, toBinary } from '@bufbuild/protobuf'
import { RateLimitRequestSchema } from '@tollway/proto/envoy/service/ratelimit/v3/rls'

/** A message of gRPC: no compression, its length, its bytes. */
export function grpcMessage(bytes: Uint8Array): Buffer {
  const message = Buffer.allocUnsafe(5 + bytes.length)
  message[0] = 0
  message.writeUInt32BE(bytes.length, 1)
  message.set(bytes, 5)
  return message
}

/**
 * One request body a key: `user=k17` in this domain. Made once, so that making them is not what is measured.
 */
export function rateLimitRequests(domain: string, keys: number): readonly Buffer[] {
  return Array.from({ length: keys }, (_, index) => {
    const descriptors = [{ entries: [{ key: 'user', value: `k${index}` }] }]
    return grpcMessage(
      toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, { domain, descriptors })),
    )
  })
}
