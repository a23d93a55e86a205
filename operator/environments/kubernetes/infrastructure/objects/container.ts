import type { PodShape } from '@tollway/crds/cluster-config.ts'
import type { Probe, Workload } from '../../../../translated-types.ts'
import { makeEnv } from './container-env.ts'
import { makeVolumeMounts } from './volumes.ts'

/**
 * A replica has a minute to start: the product of period and threshold. Readiness is not probed before.
 */
const startup = { periodSeconds: 1, timeoutSeconds: 2, failureThreshold: 60 } as const
/** A replica that is not ready receives no calls after 4 s. */
const readiness = { periodSeconds: 2, timeoutSeconds: 2, failureThreshold: 2 } as const
/** A replica is killed only after 30 s of silence, because a restart would make a slow one slower. */
const liveness = { periodSeconds: 5, timeoutSeconds: 3, failureThreshold: 6 } as const

/** The container of the service in a pod, named after the workload. */
export function makeContainer(workload: Workload, shape: PodShape) {
  const { name, ports, probes } = workload
  return {
    name,
    image: shape.image,
    imagePullPolicy: shape.imagePullPolicy,
    // The operator reports the last lines of a replica that rejects its settings.
    terminationMessagePolicy: 'FallbackToLogsOnError',
    ports: ports.map(port => ({ name: port.name, containerPort: port.port, protocol: 'TCP' })),
    env: makeEnv(workload, shape),
    ...(Object.keys(shape.resources).length > 0 ? { resources: shape.resources } : {}),
    ...(probes === undefined
      ? {}
      : {
          // A replica is not ready while the feed is unreachable, which a restart does not solve.
          startupProbe: { ...httpGet(probes.alive), ...startup },
          readinessProbe: { ...httpGet(probes.ready), ...readiness },
          livenessProbe: { ...httpGet(probes.alive), ...liveness },
        }),
    ...(Object.keys(shape.containerSecurityContext).length > 0
      ? { securityContext: shape.containerSecurityContext }
      : {}),
    volumeMounts: [...makeVolumeMounts(workload), ...shape.extraVolumeMounts],
  }
}

function httpGet({ port, path }: Probe) {
  return { httpGet: { port, path, scheme: 'HTTP' } }
}
