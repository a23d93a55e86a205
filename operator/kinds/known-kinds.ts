import { animationStreamRouteKind } from '@tollway/crds/animation-stream-route.ts'
import { rateLimitConfigKind } from '@tollway/crds/rate-limit-config.ts'
import { apiGroup } from '@tollway/crds/resource-kind.ts'
import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import type { SourcedResource, SourceProblem } from '../sources/source.ts'
import { isStreamRoute } from './animation-stream-route/is-stream-route.ts'
import type { FedKind } from './fed-kind.ts'
import { isRateLimitDomain } from './rate-limit-config/is-rate-limit-domain.ts'

const names: readonly string[] = resourceKinds.map(({ kind }) => kind)

/** For messages: `RateLimitConfig, AnimationStreamRoute`. */
export const knownKinds = names.join(', ')

/** Whether it is one of our API group, and not a Secret that such a one names. */
export function isOurs({ apiVersion }: Pick<SourcedResource, 'apiVersion'>): boolean {
  return apiVersion.startsWith(`${apiGroup}/`)
}

/** Returns the resources of Tollway's API group whose kind is unknown, mostly a spelling mistake. */
export function unknownKinds(resources: readonly SourcedResource[]): readonly SourceProblem[] {
  return resources
    .filter(resource => isOurs(resource) && !names.includes(resource.kind))
    .map(({ kind, namespace, name, origin }) => ({
      origin,
      message: `${kind} ${namespace}/${name}: there is no kind ${kind}; there are ${knownKinds}`,
    }))
}

/** The kinds whose contents an operator remembers. */
export const rememberedKinds: readonly Pick<FedKind, 'definition' | 'isContent'>[] = [
  { definition: rateLimitConfigKind, isContent: isRateLimitDomain },
  { definition: animationStreamRouteKind, isContent: isStreamRoute },
]
