import type { JsonObject } from '@tollway/chassis/json.ts'
import { apiVersion } from '@tollway/crds/resource-kind.ts'
import { effectiveFields, ruleFlags } from '@tollway/ratelimit/rules/fields.ts'
import type { RateLimitDomain, RateLimitPolicy, RateLimitRule } from '@tollway/ratelimit/rules/model.ts'

/** A RateLimitConfig resource in the form of a manifest. */
interface Manifest {
  readonly apiVersion: typeof apiVersion
  readonly kind: 'RateLimitConfig'
  readonly metadata: { readonly name: string; readonly namespace: string }
  readonly spec: JsonObject
}

/**
 * Returns one resource for each configuration in the YAML of envoyproxy/ratelimit, in the same order. Each
 * resource leads to the same decisions as its configuration. Unset fields are omitted. Each resource has its
 * own name, because a resource replaces another one of the same name.
 */
export function convertConfigurations(
  configs: readonly RateLimitDomain[],
  namespace: string,
): readonly Manifest[] {
  const taken = new Set<string>()
  return configs.map(({ domain, descriptors }) => {
    const name = uniqueName(resourceName(domain), taken)
    taken.add(name)
    return {
      apiVersion,
      kind: 'RateLimitConfig',
      metadata: { name, namespace },
      spec: { domain, descriptors: descriptors.map(convertDescriptor) },
    }
  })
}

const maxNameLength = 63

/**
 * Returns a domain's name as a valid Kubernetes name: lower case letters, digits and dashes, at most 63
 * characters.
 */
export function resourceName(domain: string): string {
  const name = domain
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-/, '')
    .slice(0, maxNameLength)
    .replace(/-$/, '')
  return name === '' ? 'domain' : name
}

function uniqueName(name: string, taken: ReadonlySet<string>): string {
  for (let count = 1; ; count++) {
    const suffix = count === 1 ? '' : `-${count}`
    const candidate = `${name.slice(0, maxNameLength - suffix.length)}${suffix}`
    if (!taken.has(candidate)) return candidate
  }
}

function convertDescriptor(descriptor: RateLimitRule): JsonObject {
  const { key, value, rateLimit, metadata, descriptors } = descriptor
  return {
    key,
    ...(value !== '' && { value }),
    ...(rateLimit && { rateLimit: convertLimit(rateLimit) }),
    ...effectiveFields(ruleFlags, descriptor),
    ...(metadata && { metadata }),
    ...(descriptors.length > 0 && { descriptors: descriptors.map(convertDescriptor) }),
  }
}

/** A file may omit `requests_per_unit`, which means 0 and blocks every request. A resource must state it. */
function convertLimit(limit: RateLimitPolicy): JsonObject {
  return {
    ...(limit.name !== '' && { name: limit.name }),
    ...(limit.unlimited
      ? { unlimited: true }
      : { unit: limit.unit.toLowerCase(), requestsPerUnit: limit.requestsPerUnit ?? 0 }),
    ...(limit.replaces.length > 0 && { replaces: limit.replaces.map(name => ({ name })) }),
  }
}
