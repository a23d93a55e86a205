import type { Log } from '@tollway/chassis/log/log.ts'
import { createReflector } from '../../controller/reflector.ts'
import type { SourceProblem } from '../../sources/source.ts'
import type { KubeClient } from './api/client.ts'
import { collectionOf } from './api/collection.ts'
import type { ApiResource, KubeObject } from './api/kube-object.ts'
import { kinds, podResource } from './infrastructure/kinds.ts'
import { operatorSelector, type Place } from './infrastructure/objects/place.ts'
import { observePods } from './infrastructure/observe-pod.ts'
import { describeProgress, progressOf } from './infrastructure/progress.ts'

/** The rollout of the operators' own Deployment, which the chart applies. */
export interface Operators {
  /** The causes that delay the rollout; empty when it is complete, and without such a Deployment. */
  problems(): readonly SourceProblem[]
  stop(): Promise<void>
}

export interface OperatorsOptions {
  readonly client: Pick<KubeClient, 'list' | 'watch'>
  readonly place: Pick<Place, 'name' | 'namespace'>
  readonly log: Pick<Log, 'warn'>
  /** Uniform in [0, 1). */
  readonly random: () => number
}

const origin = 'operator'

/** Follows the Deployment and the pods of the operators at once. */
export function followOperators({ client, place, log, random }: OperatorsOptions): Operators {
  const labelSelector = Object.entries(operatorSelector(place))
    .map(([name, value]) => `${name}=${value}`)
    .join()
  const follow = (resource: ApiResource) =>
    createReflector<KubeObject>({
      source: collectionOf(client, resource, { labelSelector }),
      namespaces: [place.namespace],
      onError: error => log.warn(`follow the operators: ${(error as Error).message}`),
      random,
    })
  const deployments = follow(kinds.Deployment)
  const pods = follow(podResource)
  return {
    problems() {
      if (!deployments.hasSynced() || !pods.hasSynced())
        return [{ origin, message: 'the API server has not answered yet which operators run' }]
      return deployments.list().flatMap(deployment => {
        const message = describeProgress(progressOf(deployment, observePods(pods.list())))
        return message === '' ? [] : [{ origin, message }]
      })
    },
    async stop() {
      await Promise.all([deployments.stop(), pods.stop()])
    },
  }
}
