import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { Replica, ReplicaObstacle } from '../../../infrastructure/provider.ts'
import type { SourceProblem } from '../../../kinds/source.ts'
import { type ServiceName, serviceNames } from '../../../model.ts'
import { objectName } from '../../../workloads/cluster-names.ts'
import { services } from '../../../workloads/registry.ts'
import type { KubernetesInfrastructure } from '../infrastructure/kubernetes.ts'
import { describeProgress } from '../infrastructure/progress.ts'

interface ServicesStatus {
  readonly addresses: Readonly<Record<string, string>>
  readonly replicas: readonly Replica[]
  readonly problems: readonly SourceProblem[]
}

export function describeServices(
  config: ClusterConfig,
  namespace: string,
  infrastructure: Pick<KubernetesInfrastructure, 'observe' | 'obstacle' | 'progress'>,
): ServicesStatus {
  const enabled = serviceNames
    .map(name => [name, services[name]] as const)
    .filter(([, { inCluster }]) => config[inCluster.field].enabled)
  const addresses = enabled.map(([name, { inCluster }]) =>
    inCluster.addresses(config, port => `${objectName(config.name, name, port)}.${namespace}.svc`, namespace),
  )
  return {
    addresses: Object.assign({}, ...addresses),
    replicas: enabled.flatMap(([name]) => infrastructure.observe(name)),
    problems: enabled.flatMap(([name]) => {
      const progress = infrastructure.progress(name)
      const obstacle = infrastructure.obstacle(name)
      const state = progress === undefined ? 'it has not been made yet' : describeProgress(progress)
      const message = [state, obstacle ?? ''].filter(text => text !== '').join(': ')
      if (message === '') return []
      return [
        withAdvice(
          { origin: name, message },
          progress?.obstacle,
          makeChartValues(config, namespace, name),
          namespace,
        ),
      ]
    }),
  }
}

function makeChartValues(config: ClusterConfig, namespace: string, name: ServiceName): ChartValues {
  const { field, workload } = services[name].inCluster
  const { secretFiles = [] } = workload(config, namespace)
  return {
    image: `${field}.pods.image or image.pullSecrets`,
    settings: `${field}.env`,
    pod: `${field}.pods`,
    secret: name => secretFiles.find(({ secretName }) => secretName === name)?.namedBy,
  }
}

/** Which values of the chart a user must change for an obstacle of each kind; see `ReplicaObstacle.of`. */
export interface ChartValues {
  readonly image: string
  readonly settings: string
  readonly pod: string
  /** Returns the value that names this Secret; undefined if the operator or the chart creates the Secret. */
  secret(name: string): string | undefined
}

/**
 * Adds to a problem the value to set, or the object to create, that removes the obstacle. Returns the problem
 * unchanged if there is no obstacle or no such value.
 */
export function withAdvice(
  problem: SourceProblem,
  obstacle: ReplicaObstacle | undefined,
  values: ChartValues,
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
