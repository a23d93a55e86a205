import { type Outcome, type RetryWaits, WorkQueue } from '../../controller/work-queue.ts'
import type { MerchantAccount } from '../../ir.ts'
import type { MerchantFacts, Obstacle } from './merchant-status.ts'
import { type MerchantOutcome, Merchants, type MerchantsOptions, secretsOf } from './merchants.ts'
import { translateMerchant } from './translate-merchant.ts'

/** A Merchant, as its environment stores it. */
export interface MerchantResource {
  /** Identifies the resource in its environment. */
  readonly key: string
  readonly uid: string
  readonly namespace: string
  readonly name: string
  /** The whole resource, for the translation. */
  readonly manifest: unknown
  readonly paused: boolean
  /** The value of the annotation that requests another key; empty without it. */
  readonly rotation: string
  /** Differs between two states of the resource that need a reconcile each. */
  readonly revision: string
  /** The effect of its deletion on the merchant. Set while the resource is being deleted. */
  readonly deletion?: MerchantAccount['onDeletion']
}

/** The Merchants of an environment. */
export interface MerchantResources<Resource extends MerchantResource> {
  keys(): Iterable<string>
  /**
   * Returns the newest state; undefined if there is no such resource and its deletion needs no step.
   * Returns `unknown` while the environment cannot say, such as for a file that cannot be read.
   */
  get(key: string): Resource | undefined | 'unknown'
  /**
   * Ensures that a deletion of the resource is seen, also after a crash, if it has to close the merchant.
   * Called before there is a merchant. Resolves with the newest state.
   */
  hold(resource: Resource, account: MerchantAccount): Promise<Resource>
  /** Lets a resource go whose deletion is complete. */
  release(resource: Resource): Promise<void>
}

/** The result of a reconcile of one resource. */
export interface MerchantFindings {
  readonly facts: MerchantFacts
  /** Undefined for a resource that is invalid or being deleted: the details of its status stay. */
  readonly account?: MerchantAccount
  readonly ids?: MerchantOutcome['ids']
}

/** The statuses of the Merchants of an environment. */
export interface MerchantStatuses<Resource extends MerchantResource> {
  write(resource: Resource, findings: MerchantFindings): Promise<void>
  /** Adds that the resource is paused. Its other conditions stay. */
  pause(resource: Resource): Promise<void>
  /** Writes the condition Degraded as it is now. */
  refreshDegraded(resource: Resource): Promise<void>
  /** Reports whether the status says that the present state of the resource is in force. */
  isSettled(resource: Resource): boolean
  forget(key: string): void
}

/** Limits the reads of Secrets: see `ReadPace`. */
export interface MerchantPace {
  reserve(key: string, request: { readonly atLeastMs: number; readonly reads?: number }): number
  release(key: string): void
}

export interface MerchantControllerOptions<Resource extends MerchantResource> extends MerchantsOptions {
  readonly resources: MerchantResources<Resource>
  readonly statuses: MerchantStatuses<Resource>
  /** Whether this operator leads. Another operator reconciles nothing. */
  readonly mayWrite: () => boolean
  /** Left out if reads need no limit. */
  readonly pace?: MerchantPace
  /** The cause of a failure of the payments service's database; undefined while it answers. */
  readonly backendFailure: () => string | undefined
  /** The maximum of concurrent reconciles. */
  readonly concurrency: number
  readonly retries: RetryWaits
  readonly onError: (key: string, error: Error, retryMs: number) => void
  /** Uniform in [0, 1). */
  readonly random: () => number
}

export interface MerchantController {
  /** Reports whether the last reconcile of the resource was one of its present revision. */
  isCurrent(key: string): boolean
  reconcile(key: string): void
  /** Reconciles all Merchants, for example because this operator has become the leader. */
  reconcileAll(): void
  /** Updates the condition Degraded of all if the state of the database has changed. */
  followBackend(): void
  /** The number of resources that wait for a worker. */
  waiting(): number
  stop(): Promise<void>
}

/** The interval at which an invalid or paused Merchant is reconciled without a change, in milliseconds. */
const idleMs = 30_000

/** Reconciles the Merchants of an environment. */
export function createMerchantController<Resource extends MerchantResource>(
  options: MerchantControllerOptions<Resource>,
): MerchantController {
  const { resources, statuses, mayWrite, pace, concurrency, retries, random } = options
  const merchants = new Merchants(options)
  const stopping = new AbortController()
  /** The state of each key at its last reconcile. */
  const seen = new Map<string, { readonly uid: string; readonly revision: string }>()
  /** Keys that this operator has not reconciled since it may write. */
  const unseen = new Set<string>()

  async function reconcile(key: string): Promise<Outcome> {
    const isFirst = unseen.delete(key)
    const resource = resources.get(key)
    if (resource === 'unknown') return 'done'
    if (resource === undefined) return forget(key)
    if (!mayWrite()) return 'done'
    const { uid, revision } = resource
    seen.set(key, { uid, revision })
    if (resource.deletion !== undefined) return finalize(resource, resource.deletion)
    // A new leader would otherwise read the Secrets of all Merchants at once.
    if (isFirst && statuses.isSettled(resource)) return { afterMs: pace?.reserve(key, { atLeastMs: 0 }) ?? 0 }
    return provision(resource)
  }

  function forget(key: string): Outcome {
    merchants.forget(seen.get(key)?.uid ?? '')
    seen.delete(key)
    pace?.release(key)
    statuses.forget(key)
    return 'done'
  }

  async function provision(resource: Resource): Promise<Outcome> {
    const { uid, namespace, name, rotation } = resource
    if (resource.paused) {
      await statuses.pause(resource)
      return { afterMs: idleMs }
    }
    const translation = translateMerchant(`${namespace}/${name}`, resource.manifest)
    if ('problems' in translation) {
      const { problems } = translation
      await statuses.write(resource, { facts: { problems, obstacle: undefined, synced: false } })
      return { afterMs: idleMs }
    }
    const { value: account } = translation
    const held = await resources.hold(resource, account)
    const outcome = await merchants.reconcile({ uid, namespace, name, account, rotation }, stopping.signal)
    const { obstacle, synced, ids } = outcome
    await statuses.write(held, { facts: { problems: [], obstacle, synced }, account, ids })
    return outcomeOf(resource.key, outcome, secretsOf(account).size)
  }

  /** A transient obstacle is an error, so that the queue repeats the reconcile with growing waits. */
  function outcomeOf(key: string, { afterMs, obstacle }: MerchantOutcome, reads: number): Outcome {
    const waitMs = pace?.reserve(key, { atLeastMs: afterMs ?? 0, reads })
    if (afterMs !== undefined) return { afterMs: waitMs ?? afterMs }
    const error = new Error(`${obstacle?.reason}: ${obstacle?.message}`)
    throw waitMs === undefined ? error : Object.assign(error, { retryAfterMs: waitMs })
  }

  async function finalize(
    resource: Resource,
    deletion: NonNullable<MerchantResource['deletion']>,
  ): Promise<Outcome> {
    try {
      if (deletion === 'close') await merchants.close(resource.uid, stopping.signal)
    } catch (error) {
      const { message } = error as Error
      const obstacle: Obstacle = { step: 'Synced', reason: 'NotClosed', message, stalled: false }
      await statuses.write(resource, { facts: { problems: [], obstacle, synced: false } })
      throw error
    }
    await resources.release(resource)
    // Another finalizer may still hold the resource: a later reconcile finds that it is gone.
    return resources.get(resource.key) === undefined ? forget(resource.key) : { afterMs: idleMs }
  }

  function onError(key: string, error: unknown, retryMs: number): void {
    if (!stopping.signal.aborted) options.onError(key, error as Error, retryMs)
  }

  const queue = new WorkQueue({ concurrency, reconcile, random, retries, onError })
  /** A separate queue: a reconcile reads Secrets, whose budget would delay the condition for minutes. */
  const degradations = new WorkQueue({
    concurrency,
    async reconcile(key) {
      const resource = mayWrite() ? resources.get(key) : undefined
      if (resource !== undefined && resource !== 'unknown') await statuses.refreshDegraded(resource)
      return 'done'
    },
    random,
    retries,
    onError,
  })
  let knownFailure: string | undefined

  return {
    isCurrent(key) {
      const resource = resources.get(key)
      if (resource === undefined || resource === 'unknown') return false
      return seen.get(key)?.revision === resource.revision
    },
    reconcile: key => queue.add(key),
    reconcileAll() {
      for (const key of resources.keys()) {
        unseen.add(key)
        queue.add(key)
        degradations.add(key)
      }
    },
    followBackend() {
      const failure = options.backendFailure()
      if (failure === knownFailure) return
      knownFailure = failure
      for (const key of resources.keys()) degradations.add(key)
    },
    waiting: () => queue.waiting() + degradations.waiting(),
    async stop() {
      stopping.abort()
      await Promise.all([queue.stop(), degradations.stop()])
    },
  }
}
