import { apiGroup } from '@tollway/crds/resource-kind.ts'
import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import type { SourcedResource, SourceProblem } from '../sources/source.ts'

const names: readonly string[] = resourceKinds.map(({ kind }) => kind)

/** For messages: `RateLimitConfig, AnimationStreamRoute`. */
export const knownKinds = names.join(', ')

/** Whether it is one of our API group, and not a Secret that such a one names. */
export function isOurs({ apiVersion }: Pick<SourcedResource, 'apiVersion'>): boolean {
  return apiVersion.startsWith(`${apiGroup}/`)
}

/** Resources of our API group that nobody reconciles: mostly a kind that is spelled wrong. */
export function unknownKinds(resources: readonly SourcedResource[]): readonly SourceProblem[] {
  return resources
    .filter(resource => isOurs(resource) && !names.includes(resource.kind))
    .map(({ kind, namespace, name, origin }) => ({
      origin,
      message: `${kind} ${namespace}/${name}: there is no kind ${kind}; there are ${knownKinds}`,
    }))
}
