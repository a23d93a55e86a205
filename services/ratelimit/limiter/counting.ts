import type { LimitCheck, LimitOutcome } from '../counters/admission/limit-check.ts'
import { withoutCounting } from '../counters/batching/split-batch.ts'
import { type Counters, CountersError, type Hit, maxCount } from '../counters/counters.ts'
import { MalformedKeyError } from '../counters/memcached/request.ts'
import type { OverLimitCache } from './over-limit-cache.ts'

/**
 * How a call is answered if the backend could not count its hits: with an error, with a fixed decision
 * (`allow`, `deny`), or by counters of this process (`local`).
 */
export type FailureMode = 'error' | 'allow' | 'deny' | 'local'

/** The value of a counter that the local cache knows to be over its limit; larger than any limit. */
export const overLimitCached = Number.POSITIVE_INFINITY

/** Counts hits. It skips the backend for keys that are cached as over, and applies the failure mode. */
export interface Counting {
  /**
   * Has the contract of `Counters.add`, but returns `overLimitCached` for each cached key. Rejects only in
   * the mode `error`, and for malformed keys.
   *
   * @param nowSeconds Unix time in whole seconds
   */
  add(batch: readonly Hit[], nowSeconds: number): readonly number[] | Promise<readonly number[]>
  /** Like `Counters.admit`, with cached rejections and the failure mode. */
  admit(
    checks: readonly LimitCheck[],
    nowMs: number,
  ): readonly LimitOutcome[] | Promise<readonly LimitOutcome[]>
}

export interface CountingOptions {
  readonly counters: Pick<Counters, 'add' | 'admit'>
  /** The cache of keys that are over their limit; none when left out. */
  readonly cache?: OverLimitCache | undefined
  /** Whether a call only reads its other keys if the cache knows one key to be over its limit. */
  readonly stopWhenOver: boolean
  readonly mode: FailureMode
  /** The counters of this process, used only in the mode `local`. */
  readonly local: Pick<Counters, 'add' | 'admit'>
  /** The share of each limit that this process may admit in the mode `local`, above 0 and at most 1. */
  readonly localShare: number
  /** Called once for each call whose hits the backend counted asynchronously. */
  readonly onSuccess: () => void
  readonly onFailure: (error: Error) => void
  /** Called, if there is a cache, with the keys of counters to which a call has given hits back. */
  readonly onGivenBack?: (keys: readonly string[]) => void
}

export function createCounting(options: CountingOptions): Counting {
  const { counters, cache, stopWhenOver, local, localShare } = options

  const addHits = createOperation<Hit, number>(options, {
    ask: batch => counters.add(batch),
    cacheOver: cacheCounts,
    allowed: () => 0,
    denied: () => maxCount,
    locally(batch) {
      // This process has only a share of each limit, so each of its hits also stands for hits of the other
      // processes.
      const scaled = (values: readonly number[]) => values.map(value => Math.ceil(value / localShare))
      const values = local.add(batch)
      return values instanceof Promise ? values.then(scaled) : scaled(values)
    },
  })

  const admitChecks = createOperation<LimitCheck, LimitOutcome>(options, {
    ask: checks => counters.admit?.(checks) ?? Promise.reject(new CountersError(cannotAdmit)),
    cacheOver: cacheRejection,
    allowed: ({ burst }) => ({ admitted: true, remaining: burst, waitSeconds: 0 }),
    denied: ({ hits }) => ({ admitted: hits < 0, remaining: 0, waitSeconds: undefined }),
    locally: checks => local.admit?.(checks.map(check => takeShare(check, localShare))) ?? [],
  })

  function addUncached(batch: readonly Hit[], isCached: readonly boolean[], nowSeconds: number) {
    const others = batch.filter((_, index) => !isCached[index])
    const join = (values: readonly number[]) => {
      let next = 0
      return isCached.map(cached => (cached ? overLimitCached : (values[next++] ?? maxCount)))
    }
    const values = addHits(stopWhenOver ? others.map(withoutCounting) : others, nowSeconds)
    return values instanceof Promise ? values.then(join) : join(values)
  }

  return {
    add(batch, nowSeconds) {
      if (cache === undefined) return addHits(batch, nowSeconds)
      const isCached = batch.map(({ key, hits }) => hits >= 0 && cache.has(key, nowSeconds))
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

/** What differs between adding hits and admitting a call. Values are in the order of the items. */
interface CountingOperation<Item, Value> {
  ask(items: readonly Item[]): Answers<Value>
  cacheOver(cache: OverLimitCache, items: readonly Item[], values: readonly Value[], nowSeconds: number): void
  allowed(item: Item): Value
  denied(item: Item): Value
  locally(items: readonly Item[]): Answers<Value>
}

/** What adding hits and admitting a call have in common. */
type Keyed = Pick<Hit, 'key' | 'hits'>

function isGivenBack({ hits }: Keyed): boolean {
  return hits < 0
}

/** Returns a function that asks the backend, caches its answer, and applies the failure mode. */
function createOperation<Item extends Keyed, Value>(
  { cache, mode, onSuccess, onFailure, onGivenBack = () => {} }: CountingOptions,
  asking: CountingOperation<Item, Value>,
): (items: readonly Item[], nowSeconds: number) => Answers<Value> {
  function cached(items: readonly Item[], values: readonly Value[], nowSeconds: number): readonly Value[] {
    if (cache !== undefined && !dropGivenBack(items)) asking.cacheOver(cache, items, values, nowSeconds)
    return values
  }

  /**
   * If a call gives hits back to counters, drops their keys from the cache. Returns whether there are such
   * keys.
   */
  function dropGivenBack(items: readonly Item[]): boolean {
    if (cache === undefined || !items.some(isGivenBack)) return false
    const keys = items.filter(isGivenBack).map(({ key }) => key)
    for (const key of keys) cache.delete(key)
    onGivenBack(keys)
    return true
  }

  function withoutBackend(error: Error, items: readonly Item[]): Answers<Value> {
    onFailure(error)
    if (mode === 'allow') return items.map(asking.allowed)
    if (mode === 'deny') return items.map(asking.denied)
    if (mode === 'error') return Promise.reject(error)
    return asking.locally(items)
  }

  /** A function of its own, so that only asynchronous calls allocate closures. */
  function answerLater(items: readonly Item[], answers: Promise<readonly Value[]>, nowSeconds: number) {
    const deletions = cache?.deletions
    return answers.then(
      values => {
        onSuccess()
        // If a counter was changed during the call, the values may be older than the change and are not cached.
        if (cache?.deletions === deletions) return cached(items, values, nowSeconds)
        dropGivenBack(items)
        return values
      },
      (error: Error) => {
        // A malformed key comes from the call and is no failure of the backend, so the failure mode does not
        // apply.
        if (error instanceof MalformedKeyError) throw error
        // The backend may have counted the call although it failed.
        dropGivenBack(items)
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
 * Caches keys that are over their limit. Each is cached at least until its window ends. To cache it longer
 * does no harm, because the next window has another key.
 */
function cacheCounts(
  cache: OverLimitCache,
  batch: readonly Hit[],
  values: readonly number[],
  nowSeconds: number,
): void {
  for (const [index, { key, hits, limit, expirySeconds, leased }] of batch.entries()) {
    // Hits that a lease rejects are not counted: the limit may still admit a call of fewer hits.
    const least = leased ? Math.max(limit + 1, limit + hits) : limit + 1
    if ((values[index] ?? 0) >= least) cache.add(key, nowSeconds + expirySeconds, nowSeconds)
  }
}

/** Returns the cached rejection of a call with a single limit; undefined if there is none. */
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

/** Caches a rejection by a limit with no hits left, until the limit would admit the call. */
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
 * Returns the key under which the rejection of a call by its only limit is cached. The key includes the
 * limit, because a new configuration can change it while the state is kept. It includes the hits, and the
 * number of deletions, so that no rejection from before an operator changed a counter is found.
 *
 * Undefined if there is nothing to cache: for a fixed window, for `Concurrency`, which may admit calls at any
 * time, for several limits, whose answer needs the state of each, for a limit in shadow mode or with
 * `countRejected`, and for a call that adds no hits.
 */
function toRejectionKey([check, ...others]: readonly LimitCheck[], deletions: number): string | undefined {
  if (check === undefined || others.length > 0) return undefined
  if (check.algorithm === 'FixedWindow' || check.algorithm === 'Concurrency') return undefined
  const { key, limit, burst, hits, shadow, countRejected } = check
  return hits <= 0 || shadow || countRejected ? undefined : `${key} ${limit} ${burst} ${hits} ${deletions}`
}

/** The part of the limit that this process may admit: rounded down, but at least 1, or 0 for a limit of 0. */
function takeShare(check: LimitCheck, share: number): LimitCheck {
  const part = (number: number) => (number === 0 ? 0 : Math.max(1, Math.floor(number * share)))
  return { ...check, limit: part(check.limit), burst: part(check.burst) }
}
