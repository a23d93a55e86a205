import {
  type RateLimitConfig as ConfigMessage,
  type RateLimitDescriptor as DescriptorMessage,
  type RateLimitPolicy,
  RateLimitUnit,
} from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import type { DescriptorConfig, DomainConfig, JsonObject, RateLimitConfig } from '../rules/config.ts'

/** A resource of the feed in the form that all configurations share. It judges nothing. */
export function decodeResource(message: ConfigMessage): DomainConfig {
  return {
    name: message.name,
    domain: message.domain,
    descriptors: message.descriptors.map(decodeDescriptor),
  }
}

function decodeDescriptor(message: DescriptorMessage): DescriptorConfig {
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

function decodePolicy(message: RateLimitPolicy): RateLimitConfig {
  return {
    unit: message.unit === RateLimitUnit.UNKNOWN ? '' : (RateLimitUnit[message.unit] ?? `${message.unit}`),
    requestsPerUnit: message.requestsPerUnit,
    unlimited: message.unlimited,
    name: message.name,
    replaces: message.replaces.map(({ name }) => name),
  }
}
