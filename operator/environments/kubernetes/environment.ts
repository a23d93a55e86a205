import type { Log } from '@tollway/chassis/log/log.ts'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { Environment } from '../../app.ts'
import type { Provisioner } from '../../kinds/merchant/provisioner.ts'
import type { LeaderConnection } from '../../leader/leader-connection.ts'
import type { Peers } from '../../leader/peers.ts'
import { serviceNames } from '../../model.ts'
import { readPaymentAddresses } from '../../workloads/payments.ts'
import { explainDisabledInCluster } from '../../workloads/registry.ts'
import type { KubeClient } from './api/client.ts'
import type { EventRecorder } from './api/events.ts'
import { type ClusterController, openClusterController, startKinds } from './controller.ts'
import type { KubernetesInfrastructure } from './infrastructure/kubernetes.ts'
import type { Installation } from './infrastructure/objects/installation.ts'
import { openClusterMerchants } from './merchants.ts'
import type { OperatorMetrics } from './metrics.ts'
import type { TenantSecrets } from './secrets.ts'

interface KubernetesEnvironmentOptions {
  readonly config: ClusterConfig
  readonly namespace: string
  readonly client: KubeClient
  readonly installation: Installation
  readonly infrastructure: Pick<KubernetesInfrastructure, 'observe' | 'obstacle' | 'onChange'>
  readonly tenants: TenantSecrets
  /** Used only if payments are enabled. */
  readonly provisioner: Provisioner
  readonly operatorName: string
  readonly peers: Peers
  readonly leader: Pick<LeaderConnection, 'current' | 'relay'>
  readonly mayWrite: () => boolean
  readonly metrics: Pick<OperatorMetrics, 'statusWritten' | 'propagated' | 'reconciled'>
  readonly events: Pick<EventRecorder, 'record'>
  readonly log: Log
}

export function kubernetesEnvironment(options: KubernetesEnvironmentOptions): Environment<ClusterController> {
  const { config, namespace, client, infrastructure, tenants, operatorName, peers, leader, log } = options
  const { watchNamespaces } = config
  return {
    infrastructure,
    services: serviceNames,
    routeSecrets: tenants.routes,
    domainGrants: new Map(config.domainGrants.map(({ domain, namespaces }) => [domain, namespaces])),
    operatorName,
    peers,
    leader,
    openKind: (kind, { feed, backends }) =>
      openClusterController(kind, {
        client,
        watchNamespaces,
        feed,
        infrastructure,
        backends,
        log,
        mayWrite: options.mayWrite,
        metrics: options.metrics,
        events: options.events,
        installation: options.installation,
        whySwitchedOff: workload => explainDisabledInCluster(config, workload),
      }),
    openMerchants: ({ backends }) =>
      openClusterMerchants({
        client,
        watchNamespaces,
        log,
        provisioner: config.payments.enabled ? options.provisioner : undefined,
        addresses: readPaymentAddresses(config, namespace),
        mayWrite: options.mayWrite,
        granted: tenants.granted,
        rateLimiter: tenants.rateLimiter,
        backendFailure: () => backends.get('payments'),
        events: options.events,
      }),
    start: kinds => startKinds(kinds, log),
  }
}
