import { maxRegexesOfDomain } from '@tollway/ratelimit/rules/regex.ts'
import { type RateLimitConfigSpec, rateLimitConfigKind, rateLimitConfigLimits } from './rate-limit-config.ts'
import { type Fields, isFields, type SchemaProblem } from './schema.ts'
import { type Validated, validateResource } from './validate.ts'

/**
 * Validates a whole RateLimitConfig as an API server with the admission policy does. This function also rejects
 * regular expressions that are too large or too many, and reports the size of a resource that etcd would reject.
 */
export function validateRateLimitConfig(resource: unknown): Validated<RateLimitConfigSpec> {
  // Each of them takes up to 25 ms, so this comes first.
  const regexes = isFields(resource) && isFields(resource['spec']) ? countRegexes(resource['spec'], 0) : 0
  if (regexes > maxRegexesOfDomain) {
    const message = `has ${regexes} regular expressions in match; at most ${maxRegexesOfDomain} are allowed`
    return { problems: [{ path: 'spec.descriptors', message }] }
  }
  const judged = validateResource<RateLimitConfigSpec>(rateLimitConfigKind, resource)
  if ('problems' in judged) return judged
  const bytes = countStoredBytes((resource as { readonly spec: unknown }).spec)
  return bytes > maxStoredBytes ? { problems: [tooLarge(bytes)] } : judged
}

/** Returns the number of regular expressions in the descriptors below `parent`, whose types are not known. */
function countRegexes({ descriptors, match }: Fields, level: number): number {
  const own = isFields(match) && typeof match['regex'] === 'string' ? 1 : 0
  if (!Array.isArray(descriptors) || level === rateLimitConfigLimits.maxDescriptorLevels) return own
  return descriptors.reduce(
    (sum: number, child: unknown) => (isFields(child) ? sum + countRegexes(child, level + 1) : sum),
    own,
  )
}

function tooLarge(bytes: number): SchemaProblem {
  const size = `takes ${bytes} bytes in an API server, with the names of its fields`
  return { path: 'spec', message: `${size}; allowed are ${maxStoredBytes}: divide it into several domains` }
}

/**
 * The largest size of a spec, as `countStoredBytes` counts it. etcd accepts 1.5 MiB for a request; the rest
 * is for the status and for fields of the API server.
 */
export const maxStoredBytes = 1_500_000

/**
 * Returns the number of bytes in which an API server stores this spec: the spec as JSON, and the name of each
 * field once more in `managedFields`, if one manager owns all fields.
 */
export function countStoredBytes(spec: unknown): number {
  return countJsonBytes(spec) + countManagedBytes(spec)
}

const countJsonBytes = (value: unknown) => Buffer.byteLength(JSON.stringify(value) ?? '')

/**
 * Returns the number of bytes in `managedFields`: `"f:name":{},` for each field, and
 * `countManagedElementBytes` for each element of a list.
 */
function countManagedBytes(value: unknown): number {
  if (Array.isArray(value))
    return value.reduce((sum: number, item) => sum + countManagedElementBytes(item), 0)
  if (value === null || typeof value !== 'object') return 0
  return Object.entries(value).reduce(
    (sum, [name, field]) => sum + countJsonBytes(`f:${name}`) + ':{},'.length + countManagedBytes(field),
    0,
  )
}

/**
 * Returns the number of bytes in `managedFields` for an element of a list: `"k:{…}":{".":{},…},` for a
 * descriptor, since lists of descriptors are merged by key and value; 0 for others.
 */
function countManagedElementBytes(item: unknown): number {
  const { key, value } = (item ?? {}) as { readonly key?: unknown; readonly value?: unknown }
  if (key === undefined) return 0
  const element = countJsonBytes(`k:${JSON.stringify({ key, value: value ?? '' })}`) + ':{".":{}},'.length
  // A missing `value` is stored too, since the API server fills it in.
  const filledIn = value === undefined ? '"value":"","f:value":{},'.length : 0
  return element + filledIn + countManagedBytes(item)
}
