import type { Member, MemberOutcome } from '../counters/admission/member.ts'
import { look } from '../counters/batching/split-batch.ts'
import { type Counters, type Hit, maxCount } from '../counters/counters.ts'
import { MalformedKeyError } from '../counters/memcached/protocol/legal-key.ts'
import { createAdmitting } from './admitting.ts'
import type { OverLimitCache } from './over-limit-cache.ts'

/** The result of a call whose hits could not be counted: an error, or a decision without the backend. */
export type FailureMode = 'error' | 'allow' | 'deny' | 'local'

/** The value of a counter that the cache knows to be over its limit; larger than any limit. */
export const knownOver = Number.POSITIVE_INFINITY

/** Counts hits. It skips the backend for keys that are cached as over, and applies the failure mode. */
export interface Counting {
  /**
   * As `Counters.add`, but returns `knownOver` for each cached key. Rejects only in the mode `error`, and for
   * illegal keys.
   *
   * @param nowSeconds Unix time in whole seconds
   */
  add(batch: readonly Hit[], nowSeconds: number): readonly number[] | Promise<readonly number[]>
  /** As `Counters.admit`, with the local cache and the failure mode. */
  admit(
    members: readonly Member[],
    nowMs: number,
  ): readonly MemberOutcome[] | Promise<readonly MemberOutcome[]>
}

export interface CountingOptions {
  readonly counters: Pick<Counters, 'add' | 'admit'>
  /** The cache of keys that are over their limit; none when left out. */
  readonly cache?: OverLimitCache | undefined
  /** When one key of a call is known to be over, the other keys are read and not counted. */
  readonly stopWhenOver: boolean
  readonly mode: FailureMode
  /** The counters of this process; for the mode `local`. */
  readonly local: Pick<Counters, 'add' | 'admit'>
  /** The share of each limit that this process may admit, above 0 and at most 1; for the mode `local`. */
  readonly localShare: number
  /** Called once for each call whose hits the backend counted asynchronously. */
  readonly onSuccess: () => void
  /** Called once for each call whose hits could not be counted. */
  readonly onFailure: (error: Error) => void
}

export function createCounting(options: CountingOptions): Counting {
  const { counters, cache, stopWhenOver, mode, local, localShare, onSuccess, onFailure } = options

  function withoutBackend(error: Error, batch: readonly Hit[]): Values {
    onFailure(error)
    if (mode === 'allow') return batch.map(() => 0)
    if (mode === 'deny') return batch.map(() => maxCount)
    if (mode === 'error') return Promise.reject(error)
    // Each hit represents the hits that the other processes admit meanwhile.
    const scaled = (values: readonly number[]) => values.map(value => Math.ceil(value / localShare))
    const values = local.add(batch)
    return values instanceof Promise ? values.then(scaled) : scaled(values)
  }

  function ask(batch: readonly Hit[], nowSeconds: number): Values {
    const values = counters.add(batch)
    return values instanceof Promise
      ? notedLater(batch, values, nowSeconds)
      : noted(batch, values, nowSeconds)
  }

  /** Separate, so that only asynchronous calls allocate closures. */
  function notedLater(
    batch: readonly Hit[],
    values: Promise<readonly number[]>,
    nowSeconds: number,
  ): Promise<readonly number[]> {
    const deletions = cache?.deletions
    return values.then(
      later => {
        onSuccess()
        // An operator may have changed a counter after the backend had read it.
        return cache?.deletions === deletions ? noted(batch, later, nowSeconds) : later
      },
      (error: Error) => {
        // The caller is at fault, not the backend.
        if (error instanceof MalformedKeyError) throw error
        return withoutBackend(error, batch)
      },
    )
  }

  function noted(batch: readonly Hit[], values: readonly number[], nowSeconds: number): readonly number[] {
    if (cache !== undefined) cacheOver(cache, batch, values, nowSeconds)
    return values
  }

  function askOfUnknown(batch: readonly Hit[], isKnown: readonly boolean[], nowSeconds: number): Values {
    const unknown = batch.filter((_, index) => !isKnown[index])
    const join = (values: readonly number[]) => {
      let next = 0
      return isKnown.map(known => (known ? knownOver : (values[next++] ?? maxCount)))
    }
    const values = ask(stopWhenOver ? unknown.map(look) : unknown, nowSeconds)
    return values instanceof Promise ? values.then(join) : join(values)
  }

  return {
    admit: createAdmitting(options),
    add(batch, nowSeconds) {
      if (cache === undefined) return ask(batch, nowSeconds)
      const isKnown = batch.map(({ key }) => cache.has(key, nowSeconds))
      if (!isKnown.includes(true)) return ask(batch, nowSeconds)
      return isKnown.includes(false) ? askOfUnknown(batch, isKnown, nowSeconds) : batch.map(() => knownOver)
    },
  }
}

/**
 * Caches keys that are over their limit. A key stays over until its window ends. It contains its window, so
 * caching it longer does no harm.
 */
function cacheOver(
  cache: OverLimitCache,
  batch: readonly Hit[],
  values: readonly number[],
  nowSeconds: number,
): void {
  for (const [index, { key, limit, expirySeconds }] of batch.entries()) {
    if ((values[index] ?? 0) > limit) cache.add(key, nowSeconds + expirySeconds, nowSeconds)
  }
}

type Values = readonly number[] | Promise<readonly number[]>
