import { type RateLimitConfigSpec, rateLimitConfigKind } from './rate-limit-config.ts'
import { wholeResource } from './resource-kind.ts'
import { type Validated, validate } from './validate.ts'

const schema = wholeResource(rateLimitConfigKind)

/**
 * Judges a whole RateLimitConfig (apiVersion, kind, metadata, spec) as an API server with our definition
 * would, and answers with its spec, defaults filled in, or with every problem that it has. Two things
 * differ. The API server lets a rule below the top level replace itself, which is refused here. And a
 * change of the domain is refused there only, for what the resource was before is not known here.
 */
export function validateRateLimitConfig(resource: unknown): Validated<RateLimitConfigSpec> {
  const judged = validate(schema, resource)
  if ('problems' in judged) return judged
  return { value: (judged.value as { readonly spec: RateLimitConfigSpec }).spec }
}
