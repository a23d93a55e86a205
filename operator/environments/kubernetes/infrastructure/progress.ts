import { isObject } from '@tollway/chassis/is-object.ts'
import type { Replica, ReplicaObstacle } from '../../../infrastructure/provider.ts'
import type { KubeObject } from '../api/kube-object.ts'
import { revisionAnnotation } from './objects/workload-objects.ts'

/** The progress of a workload's rollout. The rollout is complete when `ready` equals `wanted`. */
export interface RolloutProgress {
  readonly wanted: number
  /** The replicas of the newest template. */
  readonly updated: number
  /** At least this many replicas of the newest template accept calls. */
  readonly ready: number
  /** At most this many replicas of older templates accept calls. */
  readonly earlier: number
  /** Why the rollout is not complete, for people; empty if it is complete. */
  readonly message: string
  /** Present if, as far as is known, only a change by a person can complete the rollout. */
  readonly obstacle?: ReplicaObstacle
}

/**
 * Reads the progress from the Deployment's status. A status from before the newest generation does not count.
 *
 * @param revision the release of this operator. A Deployment of another release counts as not applied yet:
 *   another operator leads, or this one has not applied it.
 */
export function readProgress(
  deployment: KubeObject,
  replicas: readonly Replica[],
  revision = '',
): RolloutProgress {
  const wanted = readNumber(deployment['spec'], 'replicas')
  const { status, metadata } = deployment
  const takingCalls = readNumber(status, 'readyReplicas')
  if (revision !== '' && metadata.annotations?.[revisionAnnotation] !== revision) {
    return {
      wanted,
      updated: 0,
      ready: 0,
      earlier: takingCalls,
      message: 'the Deployment has not been applied yet',
    }
  }
  if (readNumber(status, 'observedGeneration') < (metadata.generation ?? 0)) {
    return {
      wanted,
      updated: 0,
      ready: 0,
      earlier: takingCalls,
      message: 'its controller has not observed it yet',
    }
  }
  const updated = readNumber(status, 'updatedReplicas')
  // It is unknown which replicas are ready, so all older ones are assumed to be ready.
  const leftOver = readNumber(status, 'replicas') - updated
  const ready = Math.max(0, Math.min(updated, takingCalls - leftOver))
  const earlier = takingCalls - ready
  if (ready >= wanted) return { wanted, updated, ready, earlier, message: '' }
  // Replicas are sorted by age, and the last ones have the newest template.
  const obstacle =
    replicas.findLast(replica => !replica.ready)?.obstacle ??
    (earlier === 0 && leftOver === 0 ? rejectedPods(status) : undefined)
  return {
    wanted,
    updated,
    ready,
    earlier,
    message: obstacle?.cause ?? explainDelay(status, replicas),
    ...(obstacle && { obstacle }),
  }
}

/**
 * Describes a rollout, with its message at the end: `0 of 3 pods of the newest version are ready, 3 earlier
 * ones take calls: POD: starting`. Empty if the rollout is complete.
 */
export function describeProgress({ wanted, ready, earlier, message }: RolloutProgress): string {
  if (ready >= wanted) return ''
  const others = earlier > 0 ? `, ${earlier} earlier ${earlier === 1 ? 'one takes' : 'ones take'} calls` : ''
  return `${ready} of ${wanted} pods of the newest version are ready${others}: ${message}`
}

function explainDelay(status: unknown, replicas: readonly Replica[]): string {
  const failure = failedCondition(status, 'ReplicaFailure', 'True')
  if (failure !== undefined) return failure
  const waiting = replicas.find(({ ready }) => !ready)
  if (waiting !== undefined) return `${waiting.name}: ${waiting.reason}`
  return failedCondition(status, 'Progressing', 'False') ?? 'replicas are being replaced'
}

/**
 * Returns why the API server rejects pods: a quota, an admission policy or a webhook. Called only without
 * pods of an earlier template, because such pods may use up a quota until they end.
 */
function rejectedPods(status: unknown): ReplicaObstacle | undefined {
  const failure = failedCondition(status, 'ReplicaFailure', 'True')
  if (failure === undefined || !/is forbidden|denied the request/.test(failure)) return undefined
  return { of: 'pod', cause: `the API server rejects its pods: ${failure}` }
}

function failedCondition(status: unknown, type: string, value: string): string | undefined {
  const conditions = isObject(status) && Array.isArray(status['conditions']) ? status['conditions'] : []
  const found = conditions.filter(isObject).find(one => one['type'] === type && one['status'] === value)
  return found === undefined ? undefined : `${found['message']}`
}

function readNumber(value: unknown, field: string): number {
  const found = isObject(value) ? value[field] : undefined
  return typeof found === 'number' ? found : 0
}
