import { randomBytes } from 'node:crypto'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { RandomBytes } from '@tollway/payments/domain/ids.ts'
import type { SecretStore } from '../../../certificates/secret-content.ts'
import { isConflict } from '../../../controller/lease-elector.ts'
import type { Infrastructure } from '../../../infrastructure/provider.ts'
import type { Workload } from '../../../model.ts'
import { paymentsSecret } from '../../../workloads/cluster-names.ts'
import { sharedSecrets } from '../../../workloads/payments.ts'
import { clusterWorkloads } from '../../../workloads/registry.ts'
import type { KubeClient } from '../api/client.ts'
import { ownSecretNames } from '../api/permissions.ts'
import { secretAccess } from '../api/secrets.ts'
import type { Installation } from '../infrastructure/objects/installation.ts'
import type { SecretDigests } from './secret-digests.ts'

const secretTimeoutMs = 10_000

type OwnSecretStore = ReturnType<typeof secretAccess>

interface ProvideOptions {
  readonly config: ClusterConfig
  readonly client: Pick<KubeClient, 'get' | 'create' | 'apply'>
  readonly installation: Installation
  readonly infrastructure: Pick<Infrastructure, 'apply' | 'remove'>
  readonly digests: Pick<SecretDigests, 'read'>
  /** Whether this operator leads. */
  readonly mayWrite: () => boolean
}

/**
 * Applies the workloads that the configuration enables and removes the others, together with the Secrets that
 * they share. The leader calls it at the beginning of its term and again when a Secret changes or is deleted.
 * An operator that does not lead any more writes nothing, and its call resolves. A workload that fails does
 * not hold up the others; the call then rejects with the first failure.
 */
export async function provideWorkloads(options: ProvideOptions): Promise<void> {
  const { config, client, infrastructure, digests, mayWrite } = options
  if (!mayWrite()) return
  const { namespace, owner } = options.installation
  const store = whileLeading(
    secretAccess(client, { namespace, metadata: { ownerReferences: [owner] } }),
    mayWrite,
  )
  const shared = { name: paymentsSecret(config.name), randomBytes }
  const signal = AbortSignal.timeout(secretTimeoutMs)
  const ensureShared = () =>
    config.payments.enabled ? ensurePaymentsSecret(store, shared, signal) : undefined
  // The digests include this Secret; created after them, it would replace the new pods once more.
  const secrets = await Promise.allSettled([
    ensureShared(),
    ownSecrets(
      store,
      ownSecretNames.map(name => `${config.name}-${name}`),
      signal,
    ),
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
  if (failed !== undefined && mayWrite()) throw failed.reason
}

function whileLeading(store: OwnSecretStore, mayWrite: () => boolean): OwnSecretStore {
  return {
    ...store,
    async put(...args) {
      if (!mayWrite()) throw new Error('write a Secret: another operator leads')
      return store.put(...args)
    },
  }
}

function withDigest(workload: Workload, secretsDigest: string | undefined): Workload {
  return secretsDigest === undefined ? workload : { ...workload, secretsDigest }
}

/**
 * Adds the installation's owner to the operator's Secrets that lack it, which an earlier version created with
 * the operator's Deployment as the owner. The entries stay as they are. A Secret that does not exist, or that
 * another writer changes at the same time, is left for the next call.
 *
 * @throws KubeApiError when a Secret cannot be read or written
 */
async function ownSecrets(
  store: ReturnType<typeof secretAccess>,
  names: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  for (const name of names) {
    const known = await store.get(name, signal)
    if (known === undefined || known.isOwned) continue
    try {
      await store.put(name, known.data, known, signal)
    } catch (error) {
      if (!isConflict(error)) throw error
    }
  }
}

const secretBytes = 32

/**
 * Creates the secrets that all processes of the payments service share, if they do not exist. Existing ones
 * are never changed, because their signatures would become invalid. Rejects with `code` 409 if another writer
 * was faster.
 */
async function ensurePaymentsSecret(
  store: SecretStore,
  { name, randomBytes }: { readonly name: string; readonly randomBytes: RandomBytes },
  signal: AbortSignal,
): Promise<void> {
  const known = await store.get(name, signal)
  const missing = Object.keys(sharedSecrets).filter(entry => (known?.data[entry] ?? '') === '')
  if (missing.length === 0) return
  const made = missing.map(entry => [entry, Buffer.from(randomBytes(secretBytes)).toString('hex')])
  await store.put(name, { ...known?.data, ...Object.fromEntries(made) }, known, signal)
}
