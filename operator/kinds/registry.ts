import { apiGroup } from '@tollway/crds/resource-kind.ts'
import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import { animationStreamRoute } from './animation-stream-route/animation-stream-route.ts'
import type { KindAdapter, KindColumns, KindContext } from './kind-adapter.ts'
import { merchantsKind } from './merchant/merchant.ts'
import { rateLimitConfig } from './rate-limit-config/rate-limit-config.ts'
import type { SourcedResource, SourceProblem } from './source.ts'

/**
 * The kinds whose contents the feed carries, in the order in which they start. A new kind needs a definition
 * in crds/, a folder beside this file, and a line here.
 */
const feedKinds = { limits: rateLimitConfig, routes: animationStreamRoute }

type FeedKinds = typeof feedKinds
export type KindAdapters = { readonly [Name in keyof FeedKinds]: ReturnType<FeedKinds[Name]['open']> }

export function openKindAdapters(context: KindContext): KindAdapters {
  const opened = Object.entries(feedKinds).map(([name, kind]) => [name, kind.open(context)])
  return Object.fromEntries(opened) as KindAdapters
}

export const rememberedKinds: readonly Pick<KindAdapter, 'definition' | 'isContent'>[] =
  Object.values(feedKinds)

export const columnsOfKinds: Readonly<Record<string, KindColumns>> = Object.fromEntries([
  ...Object.values(feedKinds).map(({ definition, columns }) => [definition.kind, columns]),
  [merchantsKind.definition.kind, merchantsKind],
])

const names: readonly string[] = resourceKinds.map(({ kind }) => kind)

/** The names of the kinds, for messages: `RateLimitConfig, AnimationStreamRoute`. */
export const knownKinds = names.join(', ')

/** Returns whether a resource belongs to Tollway's API group. A folder also has Secrets, which do not. */
export function isOurs({ apiVersion }: Pick<SourcedResource, 'apiVersion'>): boolean {
  return apiVersion.startsWith(`${apiGroup}/`)
}

/**
 * Returns a problem for each resource of Tollway's API group whose kind is unknown, mostly a spelling
 * mistake.
 */
export function unknownKinds(resources: readonly SourcedResource[]): readonly SourceProblem[] {
  return resources
    .filter(resource => isOurs(resource) && !names.includes(resource.kind))
    .map(({ kind, namespace, name, origin }) => ({
      origin,
      message: `${kind} ${namespace}/${name}: there is no kind ${kind}; there are ${knownKinds}`,
    }))
}
