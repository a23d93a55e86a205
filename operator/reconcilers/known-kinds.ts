import type { SourcedResource, SourceProblem } from '../sources/source.ts'

const knownKinds: readonly string[] = ['RateLimitConfig']

export function isRateLimitConfig({ kind }: Pick<SourcedResource, 'kind'>): boolean {
  return kind === 'RateLimitConfig'
}

/** Resources of our API group that nobody reconciles: mostly a kind that is spelled wrong. */
export function unknownKinds(resources: readonly SourcedResource[]): readonly SourceProblem[] {
  return resources
    .filter(({ kind }) => !knownKinds.includes(kind))
    .map(({ kind, namespace, name, origin }) => ({
      origin,
      message: `${kind} ${namespace}/${name}: there is no kind ${kind}; there is ${knownKinds.join(', ')}`,
    }))
}
