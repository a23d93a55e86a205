import { randomBytes } from 'node:crypto'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { Place } from '../infrastructure/kubernetes/objects/place.ts'
import type { Infrastructure } from '../infrastructure/provider.ts'
import type { Workload } from '../ir.ts'
import type { KubeClient } from '../kube/client.ts'
import { secretAccess } from '../kube/secrets.ts'
import { operatorSecrets, paymentsSecret } from './names.ts'
import { ownSecrets } from './own-secrets.ts'
import { ensurePaymentsSecret } from './payments-secret.ts'
import type { SecretDigests } from './secret-digests.ts'
import { clusterWorkloads } from './services.ts'

const secretTimeoutMs = 10_000

export interface ProvideOptions {
  readonly config: ClusterConfig
  readonly client: KubeClient
  readonly place: Place
  readonly infrastructure: Infrastructure
  readonly digests: Pick<SecretDigests, 'read'>
}

/**
 * Applies the workloads that the configuration enables and removes the others, together with the Secrets that they
 * share. Only the leader may call it, once at the beginning of its term and again when a Secret changes. A workload
 * that fails does not hold up the others; the call then rejects with the first failure.
 */
export async function provideWorkloads(options: ProvideOptions): Promise<void> {
  const { config, client, infrastructure, digests } = options
  const { namespace, owner } = options.place
  const store = secretAccess(client, { namespace, metadata: { ownerReferences: [owner] } })
  const shared = { name: paymentsSecret(config.name), randomBytes }
  const signal = AbortSignal.timeout(secretTimeoutMs)
  const ensureShared = () =>
    config.payments.enabled ? ensurePaymentsSecret(store, shared, signal) : undefined
  // The digests include this Secret; created after them, it would replace the new pods once more.
  const secrets = await Promise.allSettled([
    ensureShared(),
    ownSecrets(store, operatorSecrets(config.name), signal),
  ])
  const known = await digests.read()
  const workloads = await Promise.allSettled(
    clusterWorkloads(config, namespace).map(({ workload, enabled }) =>
      enabled
        ? infrastructure.apply(withDigest(workload, known.get(workload.name)))
        : infrastructure.remove(workload.name),
    ),
  )
  const failed = [...secrets, ...workloads].find(result => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

function withDigest(workload: Workload, secretsDigest: string | undefined): Workload {
  return secretsDigest === undefined ? workload : { ...workload, secretsDigest }
}
