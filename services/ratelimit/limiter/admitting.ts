import type { Member, MemberOutcome } from '../counters/admission/member.ts'
import { CountersError } from '../counters/counters.ts'
import { MalformedKeyError } from '../counters/memcached/protocol/legal-key.ts'
import type { Counting, CountingOptions } from './counting.ts'

type Outcomes = readonly MemberOutcome[] | Promise<readonly MemberOutcome[]>

/** Creates `Counting.admit`. */
export function createAdmitting(options: CountingOptions): Counting['admit'] {
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
    if (cache !== undefined && key !== undefined && !admitted && remaining === 0 && waitSeconds > 0) {
      cache.add(key, nowSeconds + waitSeconds, nowSeconds)
    }
    return outcomes
  }

  return (members, nowMs) => {
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
 * window, and for several limits, whose answer needs the state of each.
 */
function cacheKeyOf([member, ...others]: readonly Member[], deletions: number): string | undefined {
  if (member === undefined || others.length > 0 || member.algorithm === 'FixedWindow') return undefined
  const { key, limit, burst, hits, shadow } = member
  return hits === 0 || shadow ? undefined : `${key} ${limit} ${burst} ${hits} ${deletions}`
}

/** Returns the share of a limit that this process may admit, at least 1; a limit of 0 stays 0. */
function shareOf(member: Member, share: number): Member {
  const part = (number: number) => (number === 0 ? 0 : Math.max(1, Math.floor(number * share)))
  return { ...member, limit: part(member.limit), burst: part(member.burst) }
}
