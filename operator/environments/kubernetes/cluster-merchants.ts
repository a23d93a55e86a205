import { randomBytes } from 'node:crypto'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log.ts'
import { isOlderVersion } from '../../controller/reflector-store.ts'
import { createWorkQueue, type Outcome } from '../../controller/work-queue.ts'
import type { MerchantAccount } from '../../ir.ts'
import type { CredentialStore } from '../../kinds/merchant/credential-store.ts'
import { detailsOf, merchants as kind, merchantSubject, readDetails } from '../../kinds/merchant/merchant.ts'
import {
  deriveMerchantConditions,
  type MerchantFacts,
  type Obstacle,
  pausedConditions,
  withoutDegraded,
} from '../../kinds/merchant/merchant-status.ts'
import {
  createMerchants,
  type MerchantOutcome,
  type MerchantsTiming,
  type PaymentAddresses,
  secretsOf,
} from '../../kinds/merchant/merchants.ts'
import type { Provisioner } from '../../kinds/merchant/provisioner.ts'
import { translateMerchant } from '../../kinds/merchant/translate-merchant.ts'
import type { Translation } from '../../kinds/translation.ts'
import { readAnnotations } from '../../sources/source.ts'
import { type NewCondition, withTransitionTimes } from '../../status/conditions.ts'
import { degraded } from '../../status/resource-status.ts'
import type { KubeClient } from './api/client.ts'
import { apiVersion, applyStatusOf, customResource } from './api/custom-resources.ts'
import type { EventRecorder } from './api/events.ts'
import type { KubeObject } from './api/kube-object.ts'
import { secretAccess } from './api/secrets.ts'
import type { ClusterKind } from './cluster-kind.ts'
import { type FollowedKind, followKind } from './followed-kind.ts'
import {
  isSameStatus,
  readyCondition,
  type StoredResource,
  type StoredStatus,
} from './status/stored-resource.ts'
import { createCredentialSecrets } from './tenant-secrets/credential-secrets.ts'
import type { GrantedSecrets } from './tenant-secrets/granted-secrets.ts'
import type { ReadPace } from './tenant-secrets/read-pace.ts'
import { createSharedReads } from './tenant-secrets/shared-reads.ts'

/** Holds a resource until its merchant is closed. Only with the deletion policy Delete. */
export const merchantFinalizer = 'tollway.dev/merchant'

export interface ClusterMerchantsOptions {
  readonly client: KubeClient
  /** Empty for all. */
  readonly watchNamespaces: readonly string[]
  /** undefined where no payments service runs. */
  readonly provisioner: Provisioner | undefined
  readonly addresses: PaymentAddresses
  /** Only the operator that may write does anything at all. */
  readonly mayWrite: () => boolean
  readonly granted: GrantedSecrets
  readonly pace: ReadPace
  /** Why the database of the payments service fails; undefined while it answers. */
  readonly backendFailure?: () => string | undefined
  readonly events: Pick<EventRecorder, 'record'>
  readonly log: Log
  readonly timing?: Partial<MerchantsTiming>
}

/** Merchants that are looked at, at the same time. */
const concurrency = 4
const retries = { initialMs: 250, maxMs: 30_000 }

const resourceKind = customResource(kind.definition)

/** The Merchants of a cluster: from the API server to the payments service, their Secrets and statuses. */
export function openClusterMerchants(options: ClusterMerchantsOptions): ClusterKind {
  const { client, provisioner, addresses, mayWrite, granted, pace, log } = options
  const followed = followKind(client, resourceKind, options.watchNamespaces, log)
  const stopping = new AbortController()
  const shared = createSharedReads(
    (namespace, name, signal) =>
      granted.attempt(namespace, name, async () => {
        return (await secretAccess(client, { namespace }).get(name, signal))?.data
      }),
    systemClock,
  )
  const merchants = createMerchants({
    store: grantedStore(createCredentialSecrets(client), granted),
    readSecret: shared.read,
    provisioner,
    addresses,
    clock: systemClock,
    randomBytes,
    ...(options.timing && { timing: options.timing }),
  })
  const writer = createWriter(options, followed)
  /** What each asked for when it was looked at last, by its key. */
  const seen = new Map<string, { readonly uid: string; readonly wish: string }>()
  /** Keys that a new leader has not looked at. */
  const unseen = new Set<string>()

  async function look(key: string): Promise<Outcome> {
    const isFirst = unseen.delete(key)
    const [namespace = '', name = ''] = key.split('/')
    const resource = writer.newest(namespace, name)
    if (resource === undefined) return leave(key)
    if (!mayWrite()) return 'done'
    const uid = resource.metadata.uid ?? ''
    seen.set(key, { uid, wish: wishOf(resource) })
    if (resource.metadata.deletionTimestamp !== undefined) return finalize(resource)
    // A new leader would otherwise read the Secrets of all Merchants at once.
    if (isFirst && isSettled(resource)) return { afterMs: pace.reserve(key, { atLeastMs: 0 }) }
    const { afterMs, obstacle, reads } = await bringAbout(resource)
    if (reads === 0) return { afterMs: afterMs ?? idleMs }
    if (afterMs !== undefined) return { afterMs: pace.reserve(key, { atLeastMs: afterMs, reads }) }
    return retry(obstacle, pace.reserve(key, { atLeastMs: 0, reads }))
  }

  function leave(key: string): Outcome {
    merchants.forget(seen.get(key)?.uid ?? '')
    seen.delete(key)
    pace.release(key)
    writer.forget(key)
    return 'done'
  }

  async function bringAbout(stored: StoredResource): Promise<LookOutcome> {
    const { name, namespace = '', uid = '', annotations } = stored.metadata
    const { paused, rotation = '' } = readAnnotations(annotations)
    if (paused) {
      await writer.pause(stored)
      return idle
    }
    const translation = translate(stored)
    if ('problems' in translation) {
      const { problems } = translation
      await writer.write(stored, { facts: { problems, obstacle: undefined, synced: false } })
      return idle
    }
    const { value: account } = translation
    const held = await holdIfWanted(stored, account)
    const wanted = { uid, namespace, name, account, rotation }
    const outcome = await merchants.reconcile(wanted, stopping.signal)
    const { obstacle, synced, ids } = outcome
    await writer.write(held, { facts: { problems: [], obstacle, synced }, account, ids })
    return { afterMs: outcome.afterMs, obstacle, reads: secretsOf(account).size }
  }

  /** Before there is a merchant to close, its resource cannot vanish any more. */
  async function holdIfWanted(
    stored: StoredResource,
    { onDeletion }: MerchantAccount,
  ): Promise<StoredResource> {
    const { finalizers = [] } = stored.metadata
    const isHeld = finalizers.includes(merchantFinalizer)
    if (isHeld === (onDeletion === 'close')) return stored
    return isHeld
      ? writer.setFinalizers(
          stored,
          finalizers.filter(one => one !== merchantFinalizer),
        )
      : writer.setFinalizers(stored, [...finalizers, merchantFinalizer])
  }

  async function finalize(stored: StoredResource): Promise<Outcome> {
    const { finalizers = [], uid = '' } = stored.metadata
    if (!finalizers.includes(merchantFinalizer)) return { afterMs: idleMs }
    const { deletionPolicy } = (stored.spec ?? {}) as { readonly deletionPolicy?: unknown }
    try {
      if (deletionPolicy === 'Delete') await merchants.close(uid, stopping.signal)
    } catch (error) {
      const { message } = error as Error
      const obstacle: Obstacle = { step: 'Synced', reason: 'NotClosed', message, stalled: false }
      await writer.write(stored, { facts: { problems: [], obstacle, synced: false } })
      throw error
    }
    await writer.setFinalizers(
      stored,
      finalizers.filter(one => one !== merchantFinalizer),
    )
    return 'done'
  }

  function onError(key: string, error: unknown, retryMs: number): void {
    if (stopping.signal.aborted) return
    const details = { merchant: key, error: (error as Error).message, retryMs: Math.round(retryMs) }
    log.warn('a Merchant is not as it should be', details)
  }

  const queue = createWorkQueue({ concurrency, reconcile: look, random: Math.random, retries, onError })
  /** A queue of its own: a look reads Secrets, whose budget would delay the condition for minutes. */
  const degradations = createWorkQueue({
    concurrency,
    async reconcile(key) {
      const [namespace = '', name = ''] = key.split('/')
      const resource = mayWrite() ? writer.newest(namespace, name) : undefined
      if (resource !== undefined) await writer.refreshDegraded(resource)
      return 'done'
    },
    random: Math.random,
    retries,
    onError,
  })

  function lookAtAll(): void {
    for (const resource of followed.list()) {
      unseen.add(keyOf(resource))
      queue.add(keyOf(resource))
      degradations.add(keyOf(resource))
    }
  }

  let knownFailure: string | undefined
  function followBackend(): void {
    const failure = options.backendFailure?.()
    if (failure === knownFailure) return
    knownFailure = failure
    for (const resource of followed.list()) degradations.add(keyOf(resource))
  }

  return {
    kind: { ...kind, subjectOf: (_, spec) => merchantSubject(spec), detailsOf: readDetails },
    list: followed.list,
    problem: followed.problem,
    /** Resolves when they have been read as a whole; from then on each change is followed. */
    async start(): Promise<void> {
      await followed.source.start()
      followed.onChange((_, resource) => {
        if (seen.get(keyOf(resource))?.wish === wishOf(resource)) return
        shared.refresh(resource.metadata.namespace ?? '')
        queue.add(keyOf(resource))
      })
      lookAtAll()
    },
    // Merchants do not depend on the feed, but on the database of the payments service.
    trigger: followBackend,
    statuses: { lookAtAll, waiting: () => queue.waiting() + degradations.waiting() },
    async stop(): Promise<void> {
      stopping.abort()
      await followed.source.stop()
      await Promise.all([queue.stop(), degradations.stop()])
    },
  }
}

/** A Merchant that is wrong or paused is looked at when it changes, and at this interval. */
const idleMs = 30_000

interface LookOutcome extends Pick<MerchantOutcome, 'afterMs' | 'obstacle'> {
  /** How many Secrets the look read. */
  readonly reads: number
}

const idle: LookOutcome = { afterMs: idleMs, obstacle: undefined, reads: 0 }

/** The obstacle passes by itself: the queue repeats the look, later each time, and at the pace of reads. */
function retry(obstacle: Obstacle | undefined, retryAfterMs: number): never {
  throw Object.assign(new Error(`${obstacle?.reason}: ${obstacle?.message}`), { retryAfterMs })
}

/** Whether its status says that all of it was done, so that a look would find nothing new at once. */
function isSettled({ metadata, status = {} }: StoredResource): boolean {
  const { paused, rotation = '' } = readAnnotations(metadata.annotations)
  const isObserved = status.observedGeneration === metadata.generation
  return isObserved && !paused && rotation === '' && readyCondition(status)?.status === 'True'
}

/** The store, whose calls say what grants the right that they lack. */
function grantedStore(store: CredentialStore, granted: GrantedSecrets): CredentialStore {
  return {
    get: (place, signal) => granted.attempt(place.namespace, place.name, () => store.get(place, signal)),
    put: (place, content, known, signal) =>
      granted.attempt(place.namespace, place.name, () => store.put(place, content, known, signal)),
  }
}

function keyOf({ metadata: { namespace = '', name } }: StoredResource): string {
  return `${namespace}/${name}`
}

/** Changes of anything else are not for us to act upon. */
function wishOf({ metadata }: StoredResource): string {
  const { uid, generation, deletionTimestamp, annotations } = metadata
  return JSON.stringify([uid, generation, deletionTimestamp, readAnnotations(annotations)])
}

function translate({
  metadata: { name, namespace = '' },
  spec,
}: StoredResource): Translation<MerchantAccount> {
  const resource = { apiVersion, kind: resourceKind.kind, metadata: { name, namespace }, spec }
  return translateMerchant(`${namespace}/${name}`, resource)
}

function conditionsOf({ status }: StoredResource, fresh: readonly NewCondition[], generation: number) {
  return withTransitionTimes(status?.conditions ?? [], fresh, generation, systemClock.nowMs())
}

/** What was found out about a resource. */
interface Findings {
  readonly facts: MerchantFacts
  /** undefined for one that is wrong, or goes: what is known of its merchant stays told. */
  readonly account?: MerchantAccount
  readonly ids?: MerchantOutcome['ids']
}

/** Writes what is known of a resource to the API server, when that is something new. */
function createWriter(options: ClusterMerchantsOptions, followed: FollowedKind) {
  const { client, addresses, events } = options
  /** Our last writes: what is followed may lag behind them. */
  const written = new Map<string, StoredResource>()

  const degradedNow = () => degraded(options.backendFailure?.())

  function note(resource: KubeObject): StoredResource {
    const stored = resource as unknown as StoredResource
    written.set(keyOf(stored), stored)
    return stored
  }

  async function writeStatus(stored: StoredResource, status: StoredStatus): Promise<void> {
    const before = stored.status ?? {}
    if (isSameStatus(before, status)) return
    const { metadata } = note(await applyStatusOf(client, resourceKind, stored as KubeObject, status))
    const [was, is] = [readyCondition(before), readyCondition(status)]
    if (is === undefined || (was?.status === is.status && was.reason === is.reason)) return
    const type = is.status === 'True' ? 'Normal' : 'Warning'
    const regarding = { apiVersion, kind: resourceKind.kind, metadata }
    events.record({ regarding, type, reason: is.reason, action: 'Reconcile', note: is.message })
  }

  return {
    newest(namespace: string, name: string): StoredResource | undefined {
      const read = followed.get(namespace, name)
      const own = written.get(`${namespace}/${name}`)
      if (read === undefined || own === undefined || own.metadata.uid !== read.metadata.uid) return read
      const isBehind = isOlderVersion(read.metadata.resourceVersion ?? '', own.metadata.resourceVersion ?? '')
      return isBehind ? own : read
    },
    forget: (key: string) => void written.delete(key),
    async setFinalizers(stored: StoredResource, finalizers: readonly string[]): Promise<StoredResource> {
      const { namespace, name, resourceVersion = '' } = stored.metadata
      return note(await client.setFinalizers(resourceKind, { namespace, name, resourceVersion }, finalizers))
    },
    async write(stored: StoredResource, { facts, account, ids }: Findings): Promise<void> {
      const { generation = 0 } = stored.metadata
      const before = stored.status ?? {}
      await writeStatus(stored, {
        observedGeneration: generation,
        conditions: conditionsOf(stored, [...deriveMerchantConditions(facts), ...degradedNow()], generation),
        ...detailsOf(account, ids, addresses, readDetails(before)),
      })
    },
    /** Of a paused one stays told what was found before. */
    async pause(stored: StoredResource): Promise<void> {
      const { observedGeneration = 0, conditions = [], ...rest } = stored.status ?? {}
      const fresh = conditionsOf(
        stored,
        [...pausedConditions(conditions), ...degradedNow()],
        observedGeneration,
      )
      await writeStatus(stored, { ...rest, observedGeneration, conditions: fresh })
    },
    /** Writes the condition Degraded as it is now. A resource without a status gets it with its first one. */
    async refreshDegraded(stored: StoredResource): Promise<void> {
      const { observedGeneration, conditions = [], ...rest } = stored.status ?? {}
      if (observedGeneration === undefined) return
      const all = [...withoutDegraded(conditions), ...degradedNow()]
      const fresh = conditionsOf(stored, all, observedGeneration)
      await writeStatus(stored, { ...rest, observedGeneration, conditions: fresh })
    },
  }
}
