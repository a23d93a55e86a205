import { animationStreamRouteKind } from '@tollway/crds/animation-stream-route.ts'
import { rateLimitConfigKind } from '@tollway/crds/rate-limit-config.ts'
import { apiGroup } from '@tollway/crds/resource-kind.ts'
import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import type { SourcedResource, SourceProblem } from '../sources/source.ts'
import type { StreamLoads } from '../xds/loads/stream-loads.ts'
import {
  animationStreamRouteColumns,
  animationStreamRoutes,
} from './animation-stream-route/animation-stream-route.ts'
import { isStreamRoute } from './animation-stream-route/is-stream-route.ts'
import type { RouteSecrets } from './animation-stream-route/route-secrets.ts'
import type { KindAdapter, KindColumns } from './kind-adapter.ts'
import { merchantColumns } from './merchant/merchant.ts'
import type { Reservations } from './rate-limit-config/claim-domains.ts'
import { isRateLimitDomain } from './rate-limit-config/is-rate-limit-domain.ts'
import { rateLimitConfigColumns, rateLimitConfigs } from './rate-limit-config/rate-limit-config.ts'

/** The parts of an operator that kinds use beside their resources. */
export interface KindContext {
  /** The namespaces that may use a domain, by its name. */
  readonly domainGrants?: Reservations | undefined
  /** The tokens and keys that routes name. */
  readonly routeSecrets: RouteSecrets
  readonly loads: Pick<StreamLoads, 'of' | 'onChange'>
}

/** Opens the kinds whose contents the feed carries, in the order of their start. */
export function openKindAdapters({ domainGrants, routeSecrets, loads }: KindContext) {
  return {
    limits: rateLimitConfigs(domainGrants),
    routes: animationStreamRoutes({ secrets: routeSecrets, loads }),
  }
}

export type KindAdapters = ReturnType<typeof openKindAdapters>

/** The kinds whose contents an operator remembers. */
export const rememberedKinds: readonly Pick<KindAdapter, 'definition' | 'isContent'>[] = [
  { definition: rateLimitConfigKind, isContent: isRateLimitDomain },
  { definition: animationStreamRouteKind, isContent: isStreamRoute },
]

/** The columns of each kind in tables of resources. */
export const columnsOfKinds = {
  RateLimitConfig: rateLimitConfigColumns,
  AnimationStreamRoute: animationStreamRouteColumns,
  Merchant: merchantColumns,
} as const satisfies Readonly<Record<string, KindColumns>>

/**
 * The registry of kinds: a new kind has its definition in crds/, a folder beside this file, and lines here.
 */

const names: readonly string[] = resourceKinds.map(({ kind }) => kind)

/** The names of the kinds, for messages: `RateLimitConfig, AnimationStreamRoute`. */
export const knownKinds = names.join(', ')

/** Returns whether a resource is of Tollway's API group, and not a Secret that such a resource names. */
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
