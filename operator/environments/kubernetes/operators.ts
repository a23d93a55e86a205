import type { Log } from '@tollway/chassis/log/log.ts'
import { createReflector } from '../../controller/reflector.ts'
import type { SourceProblem } from '../../kinds/source.ts'
import { createReflectorSource, type KubeClient } from './api/client.ts'
import type { ApiResource, KubeObject, ObjectMetadata } from './api/kube-object.ts'
import { kinds, podResource } from './infrastructure/kinds.ts'
import { type Installation, labelNames, operatorSelector } from './infrastructure/objects/installation.ts'
import { observePods } from './infrastructure/observe-pod.ts'
import { describeProgress, readProgress } from './infrastructure/progress.ts'
import { type ChartValues, withAdvice } from './status/describe-services.ts'

/** Follows the rollouts of the chart's own Deployments: the operators, and the bundled Redis. */
export type Operators = ReturnType<typeof followOperators>

interface OperatorsOptions {
  readonly client: Pick<KubeClient, 'list' | 'watch'>
  readonly installation: Pick<Installation, 'name' | 'namespace'>
  readonly log: Pick<Log, 'warn'>
  readonly random: () => number
}

/** Which values of the chart concern the pods of the operators. */
export const operatorValues: ChartValues = {
  image: 'operator.image or image.pullSecrets',
  settings: 'operator.extraEnv',
  pod: 'operator',
  secret: () => undefined,
}
const redisValues: ChartValues = {
  image: 'redis.bundled.image or image.pullSecrets',
  settings: 'redis.bundled',
  pod: 'redis.bundled',
  secret: () => undefined,
}

export function followOperators({ client, installation, log, random }: OperatorsOptions) {
  const selector = operatorSelector(installation)
  const names = [selector[labelNames.name], 'tollway-redis', 'tollway-redis-streams']
  const ofInstallation = `${labelNames.instance}=${installation.name}`
  const follow = (resource: ApiResource, labelSelector: string) =>
    createReflector<KubeObject>({
      source: createReflectorSource(client, resource, { labelSelector }),
      namespaces: [installation.namespace],
      onError: error => log.warn('follow operators failed', { error: (error as Error).message }),
      random,
    })
  const deployments = follow(kinds.Deployment, `${ofInstallation},${labelNames.name}=${names[0]}`)
  const pods = follow(podResource, `${ofInstallation},${labelNames.name} in (${names})`)
  return {
    /** Returns what delays each rollout; empty if all are complete, or if there is no such Deployment. */
    problems(): readonly SourceProblem[] {
      if (!deployments.hasSynced() || !pods.hasSynced())
        return [{ origin: 'operator', message: 'the API server has not answered yet which operators run' }]
      return deployments.list().flatMap(deployment => {
        const origin = deployment.metadata.name.slice(installation.name.length + 1)
        const progress = readProgress(deployment, observePods(selectPods(deployment, pods.list())))
        const message = describeProgress(progress)
        const values = origin === 'operator' ? operatorValues : redisValues
        if (message === '') return []
        return [withAdvice({ origin, message }, progress.obstacle, values, installation.namespace)]
      })
    },
    async stop(): Promise<void> {
      await Promise.all([deployments.stop(), pods.stop()])
    },
  }
}

function selectPods({ spec }: KubeObject, pods: readonly KubeObject[]): readonly KubeObject[] {
  type Spec = { readonly selector?: { readonly matchLabels?: ObjectMetadata['labels'] } }
  const wanted = Object.entries((spec as Spec | undefined)?.selector?.matchLabels ?? {})
  return pods.filter(({ metadata }) => wanted.every(([name, value]) => metadata.labels?.[name] === value))
}
