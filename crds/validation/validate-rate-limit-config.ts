import { type RateLimitConfigSpec, rateLimitConfigKind } from '../rate-limit-config.ts'
import { wholeResource } from '../resource-kind.ts'
import type { SchemaProblem } from '../schema.ts'
import { type Validated, validateValue } from './validate.ts'

const schema = wholeResource(rateLimitConfigKind)

/**
 * Validates a whole RateLimitConfig (apiVersion, kind, metadata, spec) as an API server with our definition
 * does. Returns its spec with the defaults filled in, or all its problems. Two rules differ. The API server
 * accepts a rule below the top level that replaces itself; this function rejects it. Only the API server
 * rejects a change of the domain, because this function does not know the previous resource. A resource that
 * exceeds the limit of etcd is rejected here with its size.
 */
export function validateRateLimitConfig(resource: unknown): Validated<RateLimitConfigSpec> {
  const judged = validateValue(schema, resource)
  if ('problems' in judged) return judged
  const { spec } = judged.value as { readonly spec: RateLimitConfigSpec }
  const bytes = countStoredBytes((resource as { readonly spec: unknown }).spec)
  return bytes > maxStoredBytes ? { problems: [tooLarge(bytes)] } : { value: spec }
}

function tooLarge(bytes: number): SchemaProblem {
  const size = `takes ${bytes} bytes in an API server, with the names of its fields`
  return { path: 'spec', message: `${size}; allowed are ${maxStoredBytes}: divide it into several domains` }
}

/**
 * The limit of etcd is 1.5 MiB for a request. The rest is for the status and for fields of the API server.
 */
export const maxStoredBytes = 1_500_000

/**
 * Returns the bytes that an API server stores of a resource with this spec: the spec as JSON, and the name of
 * each field again in `managedFields`, for one manager of all fields.
 */
export function countStoredBytes(spec: unknown): number {
  return countJsonBytes(spec) + countManagedBytes(spec)
}

const countJsonBytes = (value: unknown) => Buffer.byteLength(JSON.stringify(value) ?? '')

/** Counts `"f:name":{},` for each field, and `countManagedElementBytes` for each element of a list. */
function countManagedBytes(value: unknown): number {
  if (Array.isArray(value))
    return value.reduce((sum: number, item) => sum + countManagedElementBytes(item), 0)
  if (value === null || typeof value !== 'object') return 0
  return Object.entries(value).reduce(
    (sum, [name, field]) => sum + countJsonBytes(`f:${name}`) + ':{},'.length + countManagedBytes(field),
    0,
  )
}

/** Counts `"k:{…}":{".":{},…},` for a descriptor: lists of descriptors are merged by key and value. */
function countManagedElementBytes(item: unknown): number {
  const { key, value } = (item ?? {}) as { readonly key?: unknown; readonly value?: unknown }
  if (key === undefined) return 0
  const element = countJsonBytes(`k:${JSON.stringify({ key, value: value ?? '' })}`) + ':{".":{}},'.length
  // The API server fills in a value that is left out.
  const filledIn = value === undefined ? '"value":"","f:value":{},'.length : 0
  return element + filledIn + countManagedBytes(item)
}
