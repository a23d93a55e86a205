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
  readonly mayWrite: () => boolean
}

/**
 * Applies the enabled workloads, removes the others, and creates the Secrets that workloads share. The leader
 * calls it at the start of its term, and when a Secret has changed or was deleted. One failure does not
 * prevent the other steps; the call then rejects with the first failure. If the operator no longer leads, it
 * writes nothing, and the call resolves.
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
  // The digests cover this Secret. If it were created after them, the changed digest would replace the new
  // pods.
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
      if (!mayWrite()) throw new Error('no Secret is written: another operator has the Lease')
      return store.put(...args)
    },
  }
}

function withDigest(workload: Workload, secretsDigest: string | undefined): Workload {
  return secretsDigest === undefined ? workload : { ...workload, secretsDigest }
}

/**
 * Sets the installation's owner in the operator's Secrets that do not have it: earlier versions set the
 * operator's Deployment as the owner. The entries do not change. A Secret that does not exist, or that
 * another writer changes at the same time, is skipped; the next call handles it.
 *
 * @throws KubeApiError if a Secret cannot be read or written
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
 * Creates the values that all processes of the payments service share, unless they exist. An existing value
 * never changes, because what it signed would become invalid. Rejects with `code` 409 if another writer was
 * faster.
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
