import { InfrastructureError } from '../../../infrastructure/provider.ts'
import type { KubeObject } from '../api/kube-object.ts'
import { requireKind } from './kinds.ts'
import { isOutage, type ObjectWriter } from './object-writer.ts'
import type { KindObject, OwnObjects } from './own-objects.ts'

interface DesiredState {
  /** The desired objects, in the order of their creation. */
  readonly objects: readonly KubeObject[]
  /** The initial number of replicas of a Deployment with an autoscaler. */
  readonly replicas: number
  /** The existing objects of the workload. */
  readonly found: readonly KindObject[]
  readonly own: Pick<OwnObjects, 'get'>
  readonly writer: ObjectWriter
}

/**
 * Applies the desired objects, then deletes the other objects of the workload. A rejected object does not
 * delay the others, but prevents the deletions. Resolves with the delay before the next call, if one is
 * needed; rejects with an `InfrastructureError` that names all rejected objects.
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
  // Objects of a list come without their kind.
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

/** Runs the steps in order. Failures are thrown together at the end; an outage ends the run at once. */
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
