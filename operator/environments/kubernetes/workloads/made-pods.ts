import { type ClusterConfig, validateClusterConfig } from '@tollway/crds/cluster-config.ts'
import { clusterWorkloads, makePodShape } from '../../../workloads/registry.ts'
import { makeContainer } from '../infrastructure/objects/pod-template.ts'

/** What the operator puts into a service's container, in any configuration. */
interface MadePod {
  readonly env: readonly string[]
  /** The mount folder of each volume, by the volume's name. */
  readonly mounts: Readonly<Record<string, string>>
}

/** Returns, by service, what the operator puts into its container, without what users add. */
export function madePods(): Readonly<Record<string, MadePod>> {
  const containers = everyChoice().flatMap(config =>
    clusterWorkloads(config, 'any').map(({ workload }) =>
      makeContainer(workload, makePodShape(config, workload.service)),
    ),
  )
  const byName = Object.entries(Object.groupBy(containers, ({ name }) => name))
  return Object.fromEntries(byName.map(([name, made = []]) => [name, mergeContainers(made)]))
}

function mergeContainers(containers: readonly ReturnType<typeof makeContainer>[]): MadePod {
  const env = containers.flatMap(container => container.env.map(({ name }) => name))
  const mounts = containers.flatMap(({ volumeMounts }) =>
    volumeMounts.map(({ name, mountPath }) => [`${name}`, `${mountPath}`] as const),
  )
  return { env: [...new Set(env)].sort(), mounts: Object.fromEntries(mounts) }
}

/** Returns configurations that together produce every optional part of a container. */
function everyChoice(): readonly ClusterConfig[] {
  const secret = { name: 'any' }
  const storages = [{ type: 'redis', urlSecret: secret }, { type: 'memory' }]
  return storages.map(storage => {
    const judged = validateClusterConfig({
      rateLimit: { replicas: 1, backend: storage },
      broker: {
        enabled: true,
        replicas: 1,
        streamLog: storage,
        tlsSecret: secret,
        admin: { enabled: true, tokenSecret: secret },
      },
      payments: {
        enabled: true,
        baseUrl: 'https://pay.example.org',
        database: { urlSecret: secret },
        mail: { urlSecret: secret },
      },
    })
    if ('problems' in judged) throw new Error(JSON.stringify(judged.problems))
    return judged.value
  })
}
