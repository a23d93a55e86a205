import { InfrastructureError } from '../../../infrastructure/provider.ts'
import type { KubeObject } from '../api/kube-object.ts'
import { requireKind } from './kinds.ts'
import { isOutage, type ObjectWriter } from './object-writer.ts'
import type { KindObject, OwnObjects } from './own-objects.ts'

interface DesiredState {
  /** The desired objects, in the order in which they must be created. */
  readonly objects: readonly KubeObject[]
  /** The initial number of replicas of a Deployment with an autoscaler. */
  readonly replicas: number
  readonly found: readonly KindObject[]
  readonly own: Pick<OwnObjects, 'get'>
  readonly writer: ObjectWriter
}

/**
 * Applies the desired objects, then deletes the other objects of the workload. If an object is rejected, the
 * others are still applied, but nothing is deleted. Resolves with the delay before the next call if one is
 * needed. Rejects with an `InfrastructureError` that names all rejected objects.
 */
export async function reconcileObjects({
  objects,
  replicas,
  found,
  own,
  writer,
}: DesiredState): Promise<number | undefined> {
  const steps = objects.map(
    object => () => writer.put(object, own.get(requireKind(object), object.metadata.name), replicas),
  )
  const waits = await runAll(steps)
  const isWanted = ({ kind, object }: KindObject) =>
    objects.some(wanted => wanted.kind === kind && wanted.metadata.name === object.metadata.name)
  const superfluous = found.filter(one => !isWanted(one)).reverse()
  // Objects of a list have no `kind`.
  await runAll(
    superfluous.map(
      ({ kind, object }) =>
        () =>
          writer.remove({ ...object, kind }),
    ),
  )
  const soonest = Math.min(...waits.filter(wait => wait !== undefined))
  return Number.isFinite(soonest) ? soonest : undefined
}

/**
 * Runs the steps in order. Errors are collected and thrown at the end; an error for which `isOutage` is true
 * ends the run at once.
 */
async function runAll<T>(steps: readonly (() => Promise<T>)[]): Promise<readonly T[]> {
  const results: T[] = []
  const failures: InfrastructureError[] = []
  for (const step of steps) {
    try {
      results.push(await step())
    } catch (error) {
      if (!(error instanceof InfrastructureError)) throw error
      failures.push(error)
      if (isOutage(error)) break
    }
  }
  const [first] = failures
  if (first === undefined) return results
  if (failures.length === 1) throw first
  const retryAfterMs = Math.max(...failures.map(failure => failure.retryAfterMs ?? 0))
  throw new InfrastructureError(failures.map(({ message }) => message).join('\n'), {
    cause: first.cause,
    retryAfterMs,
  })
}
