import { create, toBinary } from '@bufbuild/protobuf'
import { hashContent } from '@tollway/chassis/hash-content.ts'
import { RateLimitConfigSchema, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { rateLimitTypeUrl } from '../../rules/model.ts'
import type { Reading } from '../reading.ts'

/** Encodes a resource with one descriptor of the key `k` and a limit per minute. */
export function encodeDomain(domain: string, requestsPerUnit: number, { name = domain, value = '' } = {}) {
  const rateLimit = { unit: RateLimitUnit.MINUTE, requestsPerUnit }
  const descriptors = [{ key: 'k', value, rateLimit }]
  return toBinary(RateLimitConfigSchema, create(RateLimitConfigSchema, { name, domain, descriptors }))
}

/** Returns the reading of a response with these resources. */
export function responseOf(...values: readonly Uint8Array[]): Reading {
  const resources = values.map(value => ({ typeUrl: rateLimitTypeUrl, value }))
  return { from: 'response', typeUrl: rateLimitTypeUrl, resources, hashes: values.map(hashContent) }
}
