import { create, toBinary } from '@bufbuild/protobuf'
import { RateLimitConfigSchema, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import type { Reading } from '../reading.ts'
import { rateLimitTypeUrl } from '../resource-type.ts'

/** A resource with one descriptor of the key `k` and a limit a minute. */
export function encodeDomain(domain: string, requestsPerUnit: number, { name = domain, value = '' } = {}) {
  const rateLimit = { unit: RateLimitUnit.MINUTE, requestsPerUnit }
  const descriptors = [{ key: 'k', value, rateLimit }]
  return toBinary(RateLimitConfigSchema, create(RateLimitConfigSchema, { name, domain, descriptors }))
}

/** A response that holds these resources. */
export function responseOf(...values: readonly Uint8Array[]): Reading {
  const resources = values.map(value => ({ typeUrl: rateLimitTypeUrl, value }))
  return { from: 'response', typeUrl: rateLimitTypeUrl, resources }
}
