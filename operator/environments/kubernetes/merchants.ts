import { randomBytes } from 'node:crypto'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { apiGroup, apiVersion } from '@tollway/crds/resource-kind.ts'
import { isOlderVersion, versionOf } from '../../controller/reflector-store.ts'
import type { CredentialStore } from '../../kinds/merchant/credential-store.ts'
import { merchantsKind as kind, merchantSubject, readDetails } from '../../kinds/merchant/merchant.ts'
import { createMerchantController } from '../../kinds/merchant/merchant-controller.ts'
import type { MerchantReconcilerTiming, PaymentAddresses } from '../../kinds/merchant/merchant-reconciler.ts'
import type { MerchantResource, MerchantResources } from '../../kinds/merchant/merchant-resources.ts'
import type { MerchantStatusStore } from '../../kinds/merchant/merchant-statuses.ts'
import type { Provisioner } from '../../kinds/merchant/provisioner.ts'
import { readAnnotations } from '../../kinds/source.ts'
import type { KubeClient } from './api/client.ts'
import { applyWholeStatus, customResource } from './api/custom-resources.ts'
import type { EventRecorder } from './api/events.ts'
import type { KubeObject } from './api/kube-object.ts'
import type { ClusterController, ReportedKind } from './controller.ts'
import { createCredentialSecrets } from './credentials.ts'
import { type FollowedKind, followKind } from './followed-kind.ts'
import { isSameStatus, readyCondition, type StoredResource } from './status/stored-resource.ts'
import type { GrantedSecrets } from './tenant-secrets/granted-secrets.ts'
import type { ReadRateLimiter } from './tenant-secrets/read-rate-limiter.ts'
import { createSharedReads } from './tenant-secrets/shared-reads.ts'

/**
 * Delays the deletion of a resource until its merchant is closed. Only resources with the deletion policy
 * Delete have it.
 */
const merchantFinalizer = `${apiGroup}/merchant`

interface ClusterMerchantsOptions {
  readonly client: KubeClient
  /** The watched namespaces; empty for all namespaces. */
  readonly watchNamespaces: readonly string[]
  /** undefined if no payments service runs. */
  readonly provisioner: Provisioner | undefined
  readonly addresses: PaymentAddresses
  /** Returns whether this operator leads. An operator that does not lead reconciles nothing. */
  readonly mayWrite: () => boolean
  readonly granted: GrantedSecrets
  readonly rateLimiter: ReadRateLimiter
  /** Returns why the payments service's database fails; undefined while it answers. */
  readonly backendFailure: () => string | undefined
  readonly events: Pick<EventRecorder, 'record'>
  readonly log: Log
  readonly timing?: Partial<MerchantReconcilerTiming>
}

const concurrency = 4
const retries = { initialMs: 250, maxMs: 30_000 }

export const reportedMerchants: ReportedKind = {
  ...kind,
  readSubject: (_, spec) => merchantSubject(spec),
  readDetails,
}

const resourceKind = customResource(kind.definition)

interface ClusterMerchant extends MerchantResource {
  readonly stored: StoredResource
}

export function openClusterMerchants(options: ClusterMerchantsOptions): ClusterController {
  const { client, provisioner, addresses, mayWrite, granted, rateLimiter, backendFailure, log } = options
  const followed = followKind(client, resourceKind, options.watchNamespaces, log)
  const shared = createSharedReads(granted.read, systemClock)
  const writes = rememberWrites(followed)
  const controller = createMerchantController({
    resources: createResources(client, followed, writes),
    statuses: createStatuses(options, writes),
    store: grantedStore(createCredentialSecrets(client), granted),
    readSecret: shared.read,
    provisioner,
    addresses,
    clock: systemClock,
    randomBytes,
    ...(options.timing && { timing: options.timing }),
    mayWrite,
    rateLimiter,
    backendFailure,
    concurrency,
    retries,
    onError(merchant, { message }, retryMs) {
      log.warn('reconcile Merchant failed', { merchant, error: message, retryMs: Math.round(retryMs) })
    },
    random: Math.random,
  })
  return {
    kind: reportedMerchants,
    list: followed.list,
    problem: followed.problem,
    /** Resolves when all Merchants have been read. Later changes are followed. */
    async start(): Promise<void> {
      await followed.source.start()
      followed.onChange((_, { metadata: { namespace = '', name } }) => {
        const key = `${namespace}/${name}`
        if (controller.isCurrent(key)) return
        shared.refresh(namespace)
        controller.reconcile(key)
      })
      controller.reconcileAll()
    },
    // Merchants do not depend on the feed, but Degraded depends on the payments service's database.
    trigger: controller.followBackend,
    statuses: { recheckAll: controller.reconcileAll, waiting: controller.waiting },
    async stop(): Promise<void> {
      const stopping = controller.stop()
      await followed.source.stop()
      await stopping
    },
  }
}

/** Returns a store whose errors for a missing right say how to grant it. */
function grantedStore(store: CredentialStore, granted: GrantedSecrets): CredentialStore {
  return {
    get: (reference, signal) =>
      granted.attempt(reference.namespace, reference.name, () => store.get(reference, signal)),
    put: (reference, content, known, signal) =>
      granted.attempt(reference.namespace, reference.name, () =>
        store.put(reference, content, known, signal),
      ),
  }
}

function toMerchant(stored: StoredResource): ClusterMerchant {
  const { metadata, spec } = stored
  const { name, namespace = '', uid = '', generation = 0, deletionTimestamp, annotations } = metadata
  const { paused, rotation = '' } = readAnnotations(annotations)
  const { deletionPolicy } = (spec ?? {}) as { readonly deletionPolicy?: unknown }
  const closes = deletionPolicy === 'Delete' && isHeld(stored)
  return {
    key: `${namespace}/${name}`,
    uid,
    namespace,
    name,
    generation,
    paused,
    rotation,
    stored,
    manifest: { apiVersion, kind: resourceKind.kind, metadata: { name, namespace }, spec },
    revision: JSON.stringify([uid, generation, deletionTimestamp, paused, rotation]),
    ...(deletionTimestamp !== undefined && { deletion: closes ? 'close' : 'retain' }),
  }
}

const isHeld = ({ metadata: { finalizers = [] } }: StoredResource) => finalizers.includes(merchantFinalizer)

type Writes = ReturnType<typeof rememberWrites>

/** Remembers the last writes of this operator, because the watch may report them later. */
function rememberWrites(followed: FollowedKind) {
  const written = new Map<string, StoredResource>()
  return {
    note(resource: KubeObject): StoredResource {
      const stored = resource as unknown as StoredResource
      const { namespace = '', name } = stored.metadata
      written.set(`${namespace}/${name}`, stored)
      return stored
    },
    newest(key: string): StoredResource | undefined {
      const [namespace = '', name = ''] = key.split('/')
      const read = followed.get(namespace, name)
      const own = written.get(key)
      if (read === undefined || own === undefined || own.metadata.uid !== read.metadata.uid) return read
      return isOlderVersion(versionOf(read), versionOf(own)) ? own : read
    },
    forget: (key: string) => void written.delete(key),
  }
}

/** Gives access to the Merchants in the API server. A held resource has the `merchantFinalizer`. */
function createResources(
  client: KubeClient,
  followed: FollowedKind,
  { note, newest }: Writes,
): MerchantResources<ClusterMerchant> {
  async function setHeld(stored: StoredResource, held: boolean): Promise<StoredResource> {
    if (isHeld(stored) === held) return stored
    const { namespace, name, resourceVersion = '', finalizers = [] } = stored.metadata
    const others = finalizers.filter(one => one !== merchantFinalizer)
    const wanted = held ? [...others, merchantFinalizer] : others
    return note(await client.setFinalizers(resourceKind, { namespace, name, resourceVersion }, wanted))
  }

  return {
    keys: () => followed.list().map(({ metadata: { namespace = '', name } }) => `${namespace}/${name}`),
    get(key) {
      const stored = newest(key)
      return stored && toMerchant(stored)
    },
    async hold({ stored }, { onDeletion }) {
      return toMerchant(await setHeld(stored, onDeletion === 'close'))
    },
    async release({ stored }) {
      await setHeld(stored, false)
    },
  }
}

function createStatuses(
  { client, events }: Pick<ClusterMerchantsOptions, 'client' | 'events'>,
  { note, forget }: Writes,
): MerchantStatusStore<ClusterMerchant> {
  return {
    read({ stored: { status = {} } }) {
      const { observedGeneration, conditions = [] } = status
      if (observedGeneration === undefined) return undefined
      return { observedGeneration, conditions, problems: [], details: readDetails(status) }
    },
    async write({ stored }, { observedGeneration, conditions, details }) {
      const before = stored.status ?? {}
      const status = { observedGeneration, conditions, ...details }
      if (isSameStatus(before, status)) return
      const { metadata } = note(await applyWholeStatus(client, resourceKind, stored as KubeObject, status))
      const [was, is] = [readyCondition(before), readyCondition(status)]
      if (is === undefined || (was?.status === is.status && was.reason === is.reason)) return
      const type = is.status === 'True' ? 'Normal' : 'Warning'
      const regarding = { apiVersion, kind: resourceKind.kind, metadata }
      events.record({ regarding, type, reason: is.reason, action: 'Reconcile', note: is.message })
    },
    isSettled({ stored: { metadata, status = {} }, paused, rotation }) {
      const isObserved = status.observedGeneration === metadata.generation
      return isObserved && !paused && rotation === '' && readyCondition(status)?.status === 'True'
    },
    forget,
  }
}
