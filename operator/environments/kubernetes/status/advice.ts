import type { Obstacle } from '../../../infrastructure/provider.ts'
import type { SourceProblem } from '../../../sources/source.ts'

/** The values of the chart that describe the pods of a Deployment. */
export interface ValuesOfPods {
  readonly image: string
  readonly settings: string
  readonly pod: string
  /** Returns the value that names a Secret; undefined for a Secret that the operator or the chart creates. */
  secret(name: string): string | undefined
}

/**
 * Returns a problem with the value to set, or the object to create, that removes its obstacle; the problem
 * itself if there is none.
 */
export function withAdvice(
  problem: SourceProblem,
  obstacle: Obstacle | undefined,
  values: ValuesOfPods,
  namespace: string,
): SourceProblem {
  if (obstacle === undefined) return problem
  const { of, secret = '', attempt } = obstacle
  const value = of === 'secret' ? values.secret(secret) : values[of]
  if (value === undefined) return problem
  const isElsewhere = of === 'secret' || of === 'pod'
  const elsewhere = isElsewhere ? `create or change it in the namespace ${namespace}, or ` : ''
  const message = `${problem.message}; ${elsewhere}set ${value}`
  return { ...problem, message, obstacle: attempt === undefined ? {} : { attempt } }
}
