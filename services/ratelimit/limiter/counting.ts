import type { LimitCheck, LimitOutcome } from '../counters/admission/limit-check.ts'
import { toReadOnly } from '../counters/batching/split-batch.ts'
import { type Counters, CountersError, type Hit, maxCount } from '../counters/counters.ts'
import { MalformedKeyError } from '../counters/memcached/request.ts'
import type { OverLimitCache } from './over-limit-cache.ts'

/** The result of a call whose hits could not be counted: an error, or a decision without the backend. */
export type FailureMode = 'error' | 'allow' | 'deny' | 'local'

/** The value of a counter that the cache knows to be over its limit; larger than any limit. */
export const overLimitCached = Number.POSITIVE_INFINITY

/** Counts hits. It skips the backend for keys that are cached as over, and applies the failure mode. */
export interface Counting {
  /**
   * Has the contract of `Counters.add`, but returns `overLimitCached` for each cached key. Rejects only in the mode
   * `error`, and for illegal keys.
   *
   * @param nowSeconds Unix time in whole seconds
   */
  add(batch: readonly Hit[], nowSeconds: number): readonly number[] | Promise<readonly number[]>
  /** Has the contract of `Counters.admit`, with the local cache and the failure mode. */
  admit(
    checks: readonly LimitCheck[],
    nowMs: number,
  ): readonly LimitOutcome[] | Promise<readonly LimitOutcome[]>
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
  const { counters, cache, stopWhenOver, local, localShare } = options

  const addHits = createOperation<Hit, number>(options, {
    ask: batch => counters.add(batch),
    cacheOver: cacheCounts,
    allowed: () => 0,
    denied: () => maxCount,
    locally(batch) {
      // Each hit represents the hits that the other processes admit meanwhile.
      const scaled = (values: readonly number[]) => values.map(value => Math.ceil(value / localShare))
      const values = local.add(batch)
      return values instanceof Promise ? values.then(scaled) : scaled(values)
    },
  })

  const admitChecks = createOperation<LimitCheck, LimitOutcome>(options, {
    ask: checks => counters.admit?.(checks) ?? Promise.reject(new CountersError(cannotAdmit)),
    cacheOver: cacheRejection,
    allowed: ({ burst }) => ({ admitted: true, remaining: burst, waitSeconds: 0 }),
    denied: () => ({ admitted: false, remaining: 0, waitSeconds: undefined }),
    locally: checks => local.admit?.(checks.map(check => takeShare(check, localShare))) ?? [],
  })

  function addUncached(batch: readonly Hit[], isCached: readonly boolean[], nowSeconds: number) {
    const others = batch.filter((_, index) => !isCached[index])
    const join = (values: readonly number[]) => {
      let next = 0
      return isCached.map(cached => (cached ? overLimitCached : (values[next++] ?? maxCount)))
    }
    const values = addHits(stopWhenOver ? others.map(toReadOnly) : others, nowSeconds)
    return values instanceof Promise ? values.then(join) : join(values)
  }

  return {
    add(batch, nowSeconds) {
      if (cache === undefined) return addHits(batch, nowSeconds)
      const isCached = batch.map(({ key }) => cache.has(key, nowSeconds))
      if (!isCached.includes(true)) return addHits(batch, nowSeconds)
      return isCached.includes(false)
        ? addUncached(batch, isCached, nowSeconds)
        : batch.map(() => overLimitCached)
    },
    admit(checks, nowMs) {
      const nowSeconds = nowMs / 1000
      return cachedRejection(cache, checks, nowSeconds) ?? admitChecks(checks, nowSeconds)
    },
  }
}

type Answers<Value> = readonly Value[] | Promise<readonly Value[]>

/** What adding hits and admitting a call do differently. Each list of values has one for each item, in order. */
interface CountingOperation<Item, Value> {
  ask(items: readonly Item[]): Answers<Value>
  /** Caches what the values show to be over its limit. */
  cacheOver(cache: OverLimitCache, items: readonly Item[], values: readonly Value[], nowSeconds: number): void
  /** Returns the value of the failure mode `allow`. */
  allowed(item: Item): Value
  /** Returns the value of the failure mode `deny`. */
  denied(item: Item): Value
  /** Returns the values of the failure mode `local`. */
  locally(items: readonly Item[]): Answers<Value>
}

/** Returns a function that asks the backend, caches its answer, and applies the failure mode. */
function createOperation<Item, Value>(
  { cache, mode, onSuccess, onFailure }: CountingOptions,
  asking: CountingOperation<Item, Value>,
): (items: readonly Item[], nowSeconds: number) => Answers<Value> {
  function cached(items: readonly Item[], values: readonly Value[], nowSeconds: number): readonly Value[] {
    if (cache !== undefined) asking.cacheOver(cache, items, values, nowSeconds)
    return values
  }

  function withoutBackend(error: Error, items: readonly Item[]): Answers<Value> {
    onFailure(error)
    if (mode === 'allow') return items.map(asking.allowed)
    if (mode === 'deny') return items.map(asking.denied)
    if (mode === 'error') return Promise.reject(error)
    return asking.locally(items)
  }

  /** Separate, so that only asynchronous calls allocate closures. */
  function answerLater(items: readonly Item[], answers: Promise<readonly Value[]>, nowSeconds: number) {
    const deletions = cache?.deletions
    return answers.then(
      values => {
        onSuccess()
        // An operator may have changed a counter after the backend had read it.
        return cache?.deletions === deletions ? cached(items, values, nowSeconds) : values
      },
      (error: Error) => {
        // The caller is at fault, not the backend.
        if (error instanceof MalformedKeyError) throw error
        return withoutBackend(error, items)
      },
    )
  }

  return (items, nowSeconds) => {
    const answers = asking.ask(items)
    return answers instanceof Promise
      ? answerLater(items, answers, nowSeconds)
      : cached(items, answers, nowSeconds)
  }
}

/**
 * Caches keys that are over their limit. A key stays over until its window ends. It contains its window, so
 * caching it longer does no harm.
 */
function cacheCounts(
  cache: OverLimitCache,
  batch: readonly Hit[],
  values: readonly number[],
  nowSeconds: number,
): void {
  for (const [index, { key, limit, expirySeconds }] of batch.entries()) {
    if ((values[index] ?? 0) > limit) cache.add(key, nowSeconds + expirySeconds, nowSeconds)
  }
}

/** Returns the rejection that the cache has; only calls with one limit have one. */
function cachedRejection(
  cache: OverLimitCache | undefined,
  checks: readonly LimitCheck[],
  nowSeconds: number,
): readonly LimitOutcome[] | undefined {
  if (cache === undefined) return undefined
  const key = toRejectionKey(checks, cache.deletions)
  const until = key === undefined ? undefined : cache.until(key, nowSeconds)
  if (until === undefined) return undefined
  return [{ admitted: false, remaining: 0, waitSeconds: until - nowSeconds, fromLocalCache: true }]
}

/** Caches a rejection until the call would be admitted. */
function cacheRejection(
  cache: OverLimitCache,
  checks: readonly LimitCheck[],
  outcomes: readonly LimitOutcome[],
  nowSeconds: number,
): void {
  const { admitted = true, remaining = 0, waitSeconds = 0 } = outcomes[0] ?? {}
  if (admitted || remaining > 0 || waitSeconds <= 0) return
  const key = toRejectionKey(checks, cache.deletions)
  if (key !== undefined) cache.add(key, nowSeconds + waitSeconds, nowSeconds)
}

const cannotAdmit = 'the backend has only counters of fixed windows'

/**
 * Returns the key under which the rejection of a call by its only limit is cached. It includes the limit, which
 * a change of the configuration replaces while the state is kept, the hits, and the deletions before the
 * call: after an operator has changed a counter, every rejection is asked for once more. Undefined for a fixed
 * window, for several limits, whose answer needs the state of each, and for a limit that counts rejected hits.
 */
function toRejectionKey([check, ...others]: readonly LimitCheck[], deletions: number): string | undefined {
  if (check === undefined || others.length > 0 || check.algorithm === 'FixedWindow') return undefined
  const { key, limit, burst, hits, shadow, countRejected } = check
  return hits === 0 || shadow || countRejected ? undefined : `${key} ${limit} ${burst} ${hits} ${deletions}`
}

/** Returns the share of a limit that this process may admit, at least 1; a limit of 0 stays 0. */
function takeShare(check: LimitCheck, share: number): LimitCheck {
  const part = (number: number) => (number === 0 ? 0 : Math.max(1, Math.floor(number * share)))
  return { ...check, limit: part(check.limit), burst: part(check.burst) }
}
