import { type RateLimitConfigSpec, rateLimitConfigKind } from '../rate-limit-config.ts'
import { wholeResource } from '../resource-kind.ts'
import type { Problem } from '../schema.ts'
import { maxStoredBytes, storedBytesOf } from './stored-size.ts'
import { type Validated, validate } from './validate.ts'

const schema = wholeResource(rateLimitConfigKind)

/**
 * Validates a whole RateLimitConfig (apiVersion, kind, metadata, spec) as an API server with our definition
 * does. Returns its spec with the defaults filled in, or all its problems. Two rules differ. The API server
 * accepts a rule below the top level that replaces itself; this function rejects it. And only the API server
 * rejects a change of the domain, because this function does not know the previous resource. A resource
 * that is larger than etcd takes is rejected here with its size.
 */
export function validateRateLimitConfig(resource: unknown): Validated<RateLimitConfigSpec> {
  const judged = validate(schema, resource)
  if ('problems' in judged) return judged
  const { spec } = judged.value as { readonly spec: RateLimitConfigSpec }
  const bytes = storedBytesOf((resource as { readonly spec: unknown }).spec)
  return bytes > maxStoredBytes ? { problems: [tooLarge(bytes)] } : { value: spec }
}

function tooLarge(bytes: number): Problem {
  const size = `takes ${bytes} bytes in an API server, with the names of its fields`
  return { path: 'spec', message: `${size}; allowed are ${maxStoredBytes}: divide it into several domains` }
}
