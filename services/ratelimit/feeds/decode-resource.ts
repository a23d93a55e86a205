import { fromBinary } from '@bufbuild/protobuf'
import { BinaryReader } from '@bufbuild/protobuf/wire'
import {
  type RateLimitDescriptor as DescriptorMessage,
  type RateLimitPolicy as PolicyMessage,
  RateLimitDescriptorSchema,
  RateLimitUnit,
} from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import type { JsonObject, RateLimitDomain, RateLimitPolicy, RateLimitRule } from '../rules/config.ts'

/**
 * Decodes a resource of the feed, an encoded ratelimit.config.ratelimit.v3.RateLimitConfig, to the common
 * form of configurations. It does not validate. Descriptors are decoded one at a time: the messages of
 * 100,000 together would take 200 MiB.
 *
 * @throws Error for bytes that are not such a message
 */
export function decodeResource(bytes: Uint8Array): RateLimitDomain {
  const reader = new BinaryReader(bytes)
  const descriptors: RateLimitRule[] = []
  let name = ''
  let domain = ''
  while (reader.pos < reader.len) {
    const [fieldNumber, wireType] = reader.tag()
    if (fieldNumber === 1) name = reader.string()
    else if (fieldNumber === 2) domain = reader.string()
    else if (fieldNumber === 3) descriptors.push(decodeDescriptor(readDescriptor(reader.bytes())))
    else reader.skip(wireType, fieldNumber)
  }
  return { name, domain, descriptors }
}

const options = { readUnknownFields: false }

function readDescriptor(bytes: Uint8Array): DescriptorMessage {
  return fromBinary(RateLimitDescriptorSchema, bytes, options)
}

function decodeDescriptor(message: DescriptorMessage): RateLimitRule {
  const { key, value, shadowMode, detailedMetric, quotaMode, valueToMetric, shareThreshold } = message
  return {
    key,
    value,
    shadowMode,
    detailedMetric,
    quotaMode,
    valueToMetric,
    shareThreshold,
    ...(message.rateLimit && { rateLimit: decodePolicy(message.rateLimit) }),
    ...(message.metadata && { metadata: message.metadata as JsonObject }),
    descriptors: message.descriptors.map(decodeDescriptor),
  }
}

function decodePolicy(message: PolicyMessage): RateLimitPolicy {
  return {
    unit: message.unit === RateLimitUnit.UNKNOWN ? '' : (RateLimitUnit[message.unit] ?? `${message.unit}`),
    requestsPerUnit: message.requestsPerUnit,
    unlimited: message.unlimited,
    name: message.name,
    replaces: message.replaces.map(({ name }) => name),
  }
}
