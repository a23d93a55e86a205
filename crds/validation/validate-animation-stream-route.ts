import { type AnimationStreamRouteSpec, animationStreamRouteKind } from '../animation-stream-route.ts'
import { wholeResource } from '../resource-kind.ts'
import { type Validated, validateValue } from './validate.ts'

const schema = wholeResource(animationStreamRouteKind)

/**
 * Validates a whole AnimationStreamRoute (apiVersion, kind, metadata, spec) as an API server with Tollway's
 * definition does. Returns the spec with its defaults filled in, or all problems.
 */
export function validateAnimationStreamRoute(resource: unknown): Validated<AnimationStreamRouteSpec> {
  const judged = validateValue(schema, resource)
  if ('problems' in judged) return judged
  return { value: (judged.value as { readonly spec: AnimationStreamRouteSpec }).spec }
}
