import type { Member, MemberOutcome } from '../counters/admission/member.ts'
import { look } from '../counters/batching/split-batch.ts'
import { type Counters, CountersError, type Hit, maxCount } from '../counters/counters.ts'
import { MalformedKeyError } from '../counters/memcached/request.ts'
import type { OverLimitCache } from './over-limit-cache.ts'

/** The result of a call whose hits could not be counted: an error, or a decision without the backend. */
export type FailureMode = 'error' | 'allow' | 'deny' | 'local'

/** The value of a counter that the cache knows to be over its limit; larger than any limit. */
export const knownOver = Number.POSITIVE_INFINITY

/** Counts hits. It skips the backend for keys that are cached as over, and applies the failure mode. */
export interface Counting {
  /**
   * Has the contract of `Counters.add`, but returns `knownOver` for each cached key. Rejects only in the mode
   * `error`, and for illegal keys.
   *
   * @param nowSeconds Unix time in whole seconds
   */
  add(batch: readonly Hit[], nowSeconds: number): readonly number[] | Promise<readonly number[]>
  /** Has the contract of `Counters.admit`, with the local cache and the failure mode. */
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

type Outcomes = readonly MemberOutcome[] | Promise<readonly MemberOutcome[]>

/** Creates `Counting.admit`. */
function createAdmitting(options: CountingOptions): Counting['admit'] {
  const { counters, cache, mode, local, localShare, onSuccess, onFailure } = options

  function withoutBackend(error: Error, members: readonly Member[]): Outcomes {
    onFailure(error)
    if (mode === 'error') return Promise.reject(error)
    if (mode === 'allow')
      return members.map(({ burst }) => ({ admitted: true, remaining: burst, waitSeconds: 0 }))
    if (mode === 'deny') return members.map(() => ({ admitted: false, remaining: 0, waitSeconds: undefined }))
    return local.admit?.(members.map(member => shareOf(member, localShare))) ?? []
  }

  /** Returns the refusal that the cache knows; only calls with one limit have one. */
  function cached(key: string | undefined, nowSeconds: number): readonly MemberOutcome[] | undefined {
    if (cache === undefined || key === undefined) return undefined
    const until = cache.until(key, nowSeconds)
    if (until === undefined) return undefined
    return [{ admitted: false, remaining: 0, waitSeconds: until - nowSeconds, fromLocalCache: true }]
  }

  /** Caches a refusal until the call would be admitted. */
  function noted(
    key: string | undefined,
    outcomes: readonly MemberOutcome[],
    nowSeconds: number,
  ): readonly MemberOutcome[] {
    const { admitted = true, remaining = 0, waitSeconds = 0 } = outcomes[0] ?? {}
    if (cache !== undefined && key !== undefined && !admitted && remaining <= 0 && waitSeconds > 0) {
      cache.add(key, nowSeconds + waitSeconds, nowSeconds)
    }
    return outcomes
  }

  return (members: readonly Member[], nowMs: number): Outcomes => {
    const nowSeconds = nowMs / 1000
    const key = cache === undefined ? undefined : cacheKeyOf(members, cache.deletions)
    const known = cached(key, nowSeconds)
    if (known !== undefined) return known
    if (counters.admit === undefined) return withoutBackend(new CountersError(cannotAdmit), members)
    const outcomes = counters.admit(members)
    if (!(outcomes instanceof Promise)) return noted(key, outcomes, nowSeconds)
    return outcomes.then(
      later => {
        onSuccess()
        return noted(key, later, nowSeconds)
      },
      (error: Error) => {
        // The caller is at fault, not the backend.
        if (error instanceof MalformedKeyError) throw error
        return withoutBackend(error, members)
      },
    )
  }
}

const cannotAdmit = 'the backend has only counters of fixed windows'

/**
 * Returns the key under which the refusal of a call by its only limit is cached. It includes the limit, which
 * a change of the configuration replaces while the state is kept, the hits, and the deletions before the
 * call: after an operator has changed a counter, every refusal is asked for once more. Undefined for a fixed
 * window, for several limits, whose answer needs the state of each, and for a limit that counts rejected hits.
 */
function cacheKeyOf([member, ...others]: readonly Member[], deletions: number): string | undefined {
  if (member === undefined || others.length > 0 || member.algorithm === 'FixedWindow') return undefined
  const { key, limit, burst, hits, shadow, countRejected } = member
  return hits === 0 || shadow || countRejected ? undefined : `${key} ${limit} ${burst} ${hits} ${deletions}`
}

/** Returns the share of a limit that this process may admit, at least 1; a limit of 0 stays 0. */
function shareOf(member: Member, share: number): Member {
  const part = (number: number) => (number === 0 ? 0 : Math.max(1, Math.floor(number * share)))
  return { ...member, limit: part(member.limit), burst: part(member.burst) }
}
