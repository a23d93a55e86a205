import type {
  DescriptorConfig,
  DomainConfig,
  JsonObject,
  RateLimitConfig,
} from '@tollway/ratelimit/rules/config.ts'

/** A RateLimitConfig resource, as it is written into a manifest. */
export interface Manifest {
  readonly apiVersion: 'tollway.dev/v1alpha1'
  readonly kind: 'RateLimitConfig'
  readonly metadata: { readonly name: string; readonly namespace: string }
  readonly spec: JsonObject
}

/**
 * A configuration of the specification's YAML form as a resource that decides the same. Only what is set is
 * written.
 */
export function convertConfiguration(config: DomainConfig, namespace: string): Manifest {
  return {
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { name: resourceName(config.domain), namespace },
    spec: { domain: config.domain, descriptors: config.descriptors.map(convertDescriptor) },
  }
}

/** A domain's name as Kubernetes allows names: lower case letters, digits and dashes, at most 63. */
export function resourceName(domain: string): string {
  const name = domain
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 63)
    .replace(/^-+|-+$/g, '')
  return name === '' ? 'domain' : name
}

function convertDescriptor(descriptor: DescriptorConfig): JsonObject {
  const { key, value, rateLimit, metadata, descriptors } = descriptor
  return {
    key,
    ...(value !== '' && { value }),
    ...(rateLimit && { rateLimit: convertLimit(rateLimit) }),
    ...(descriptor.shadowMode && { shadowMode: true }),
    ...(descriptor.detailedMetric && { detailedMetric: true }),
    ...(descriptor.quotaMode && { quotaMode: true }),
    ...(descriptor.valueToMetric && { valueToMetric: true }),
    ...(descriptor.shareThreshold && { shareThreshold: true }),
    ...(metadata && { metadata }),
    ...(descriptors.length > 0 && { descriptors: descriptors.map(convertDescriptor) }),
  }
}

/** A file may leave out `requests_per_unit`, which then blocks every request; a resource says so. */
function convertLimit(limit: RateLimitConfig): JsonObject {
  return {
    ...(limit.name !== '' && { name: limit.name }),
    ...(limit.unlimited
      ? { unlimited: true }
      : { unit: limit.unit.toLowerCase(), requestsPerUnit: limit.requestsPerUnit ?? 0 }),
    ...(limit.replaces.length > 0 && { replaces: limit.replaces.map(name => ({ name })) }),
  }
}
