import type { Clock } from '@tollway/chassis/clock.ts'

export interface ReviewCacheLimits {
  /** The time for which an answer is used. */
  readonly keepMs: number
  /** The maximum of kept answers; the oldest are dropped first. */
  readonly maxEntries: number
  /** The maximum of concurrent reviews. */
  readonly maxRunning: number
}

/** Caches answers of the API server for a short time, and sends equal questions once. */
export interface ReviewCache<Answer> {
  /**
   * Resolves with the answer. Rejects as `ask` does, or with the error of `tooMany`; errors are not cached.
   */
  get(key: string, ask: () => Promise<Answer>): Promise<Answer>
}

/** @param tooMany returns the error for a question while `maxRunning` others wait */
export function createReviewCache<Answer>(
  clock: Clock,
  { keepMs, maxEntries, maxRunning }: ReviewCacheLimits,
  tooMany: () => Error,
): ReviewCache<Answer> {
  const answers = new Map<string, { readonly atMs: number; readonly answer: Promise<Answer> }>()
  let running = 0

  async function review(key: string, ask: () => Promise<Answer>): Promise<Answer> {
    running += 1
    try {
      return await ask()
    } catch (error) {
      answers.delete(key)
      throw error
    } finally {
      running -= 1
    }
  }

  return {
    async get(key, ask) {
      const nowMs = clock.monotonicMs()
      const known = answers.get(key)
      if (known !== undefined && nowMs - known.atMs < keepMs) return known.answer
      if (running >= maxRunning) throw tooMany()
      const answer = review(key, ask)
      answers.delete(key)
      answers.set(key, { atMs: nowMs, answer })
      const oldest = answers.keys().next()
      if (answers.size > maxEntries && !oldest.done) answers.delete(oldest.value)
      return await answer
    },
  }
}
