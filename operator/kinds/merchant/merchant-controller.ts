import { type ReconcileOutcome, type RetryWaits, WorkQueue } from '../../controller/work-queue.ts'
import type { MerchantFacts, MerchantObstacle } from './merchant-conditions.ts'
import {
  listSecrets,
  type MerchantOutcome,
  MerchantReconciler,
  type MerchantReconcilerOptions,
} from './merchant-reconciler.ts'
import type { MerchantResource, MerchantResources } from './merchant-resources.ts'
import {
  MerchantStatuses,
  type MerchantStatusOptions,
  type MerchantStatusStore,
} from './merchant-statuses.ts'
import { merchantLeftOpen, notClosed } from './obstacles.ts'
import { translateMerchant } from './translate-merchant.ts'

/** Limits the rate of reads of Secrets; see `createReadRateLimiter`. */
interface MerchantReadLimiter {
  reserve(key: string, request: { readonly atLeastMs: number; readonly reads?: number }): number
  release(key: string): void
}

interface MerchantControllerOptions<Resource extends MerchantResource>
  extends MerchantReconcilerOptions,
    MerchantStatusOptions {
  readonly resources: MerchantResources<Resource>
  readonly statuses: MerchantStatusStore<Resource>
  readonly mayWrite: () => boolean
  /** Left out if reads of Secrets need no limit. */
  readonly rateLimiter?: MerchantReadLimiter
  readonly concurrency: number
  readonly retries: RetryWaits
  readonly onError: (key: string, error: Error, retryMs: number) => void
  readonly random: () => number
}

const unreconciled: MerchantFacts = { problems: [], obstacle: undefined, synced: false }

/**
 * The interval in milliseconds at which a Merchant that cannot proceed, for example a paused one, is
 * reconciled without a change.
 */
const idleMs = 30_000

export function createMerchantController<Resource extends MerchantResource>(
  options: MerchantControllerOptions<Resource>,
) {
  const { resources, statuses: store, mayWrite, rateLimiter, concurrency, retries, random } = options
  const statuses = new MerchantStatuses(store, options)
  const merchants = new MerchantReconciler(options)
  const stopping = new AbortController()
  /** The uid and revision of each Merchant at its last reconcile, by key. */
  const seen = new Map<string, { readonly uid: string; readonly revision: string }>()
  /** The keys that have not been reconciled since the last call of `reconcileAll`. */
  const unseen = new Set<string>()

  async function reconcile(key: string): Promise<ReconcileOutcome> {
    const isFirst = unseen.delete(key)
    const resource = resources.get(key)
    if (resource === 'unknown') return 'done'
    if (resource === undefined) return forget(key)
    if (!mayWrite()) return 'done'
    const { uid, revision } = resource
    seen.set(key, { uid, revision })
    if (resource.deletion !== undefined) return finalize(resource, resource.deletion)
    // Spreads the first reconciles over time, so that a new leader does not read the Secrets of all Merchants
    // at once.
    if (isFirst && store.isSettled(resource))
      return { afterMs: rateLimiter?.reserve(key, { atLeastMs: 0 }) ?? 0 }
    return provision(resource)
  }

  function forget(key: string): ReconcileOutcome {
    merchants.forget(seen.get(key)?.uid ?? '')
    seen.delete(key)
    rateLimiter?.release(key)
    store.forget(key)
    return 'done'
  }

  async function provision(resource: Resource): Promise<ReconcileOutcome> {
    const { uid, namespace, name, rotation } = resource
    if (resource.paused) {
      await statuses.pause(resource)
      return { afterMs: idleMs }
    }
    const translation = translateMerchant(`${namespace}/${name}`, resource.manifest)
    if ('problems' in translation) {
      const { problems } = translation
      await statuses.write(resource, { facts: { ...unreconciled, problems } })
      return { afterMs: idleMs }
    }
    const { value: account } = translation
    const onDeletion = options.provisioner === undefined ? 'retain' : account.onDeletion
    let held = resource
    const hold = async () => {
      held = await resources.hold(held, { ...account, onDeletion })
    }
    // If a deletion leaves the merchant open, `hold` only ensures that the deletion is not delayed. It is
    // called before the reconcile, so that it takes effect even if the reconcile meets an obstacle.
    if (onDeletion === 'retain') await hold()
    const outcome = await merchants.reconcile(
      { uid, namespace, name, account, rotation, hold },
      stopping.signal,
    )
    const { obstacle, synced, ids } = outcome
    await statuses.write(held, { facts: { problems: [], obstacle, synced }, account, ids })
    return toOutcome(resource.key, outcome, listSecrets(account).size)
  }

  /** Throws for a transient obstacle, so that the queue repeats the reconcile with growing waits. */
  function toOutcome(key: string, { afterMs, obstacle }: MerchantOutcome, reads: number): ReconcileOutcome {
    const waitMs = rateLimiter?.reserve(key, { atLeastMs: afterMs ?? 0, reads })
    if (afterMs !== undefined) return { afterMs: waitMs ?? afterMs }
    const error = new Error(`${obstacle?.reason}: ${obstacle?.message}`)
    throw waitMs === undefined ? error : Object.assign(error, { retryAfterMs: waitMs })
  }

  async function finalize(
    resource: Resource,
    deletion: NonNullable<MerchantResource['deletion']>,
  ): Promise<ReconcileOutcome> {
    const report = (obstacle: MerchantObstacle) =>
      statuses.write(resource, { facts: { problems: [], obstacle, synced: false } })
    if (deletion === 'close' && options.provisioner === undefined) {
      await report(merchantLeftOpen)
    } else if (deletion === 'close') {
      try {
        await merchants.close(resource.uid, stopping.signal)
      } catch (error) {
        await report(notClosed(error as Error, resource))
        throw error
      }
    }
    await resources.release(resource)
    // Another finalizer may still delay the deletion. A later reconcile then finds that the resource is gone.
    return resources.get(resource.key) === undefined ? forget(resource.key) : { afterMs: idleMs }
  }

  function onError(key: string, error: unknown, retryMs: number): void {
    if (!stopping.signal.aborted) options.onError(key, error as Error, retryMs)
  }

  const queue = new WorkQueue({ concurrency, reconcile, random, retries, onError })
  /**
   * A separate queue, because reconciles wait for the limit of Secret reads, and would delay the condition
   * Degraded for minutes.
   */
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
    /** Writes a status for each Merchant that says that it has not been reconciled yet. */
    async begin(): Promise<void> {
      for (const key of resources.keys()) {
        const resource = resources.get(key)
        if (typeof resource === 'object') await statuses.write(resource, { facts: unreconciled })
      }
    },
    /** Returns whether the last reconcile had the present revision of the resource. */
    isCurrent(key: string): boolean {
      const resource = resources.get(key)
      if (resource === undefined || resource === 'unknown') return false
      return seen.get(key)?.revision === resource.revision
    },
    reconcile: (key: string) => queue.add(key),
    /** Reconciles all Merchants, for example because this operator has become the leader. */
    reconcileAll(): void {
      for (const key of resources.keys()) {
        unseen.add(key)
        queue.add(key)
        degradations.add(key)
      }
    },
    /** Updates the condition Degraded of all Merchants if the result of `backendFailure` has changed. */
    followBackend(): void {
      const failure = options.backendFailure()
      if (failure === knownFailure) return
      knownFailure = failure
      for (const key of resources.keys()) degradations.add(key)
    },
    waiting: (): number => queue.waiting() + degradations.waiting(),
    async stop(): Promise<void> {
      stopping.abort()
      await Promise.all([queue.stop(), degradations.stop()])
    },
  }
}
