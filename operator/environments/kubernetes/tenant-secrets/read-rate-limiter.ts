import type { Clock } from '@tollway/chassis/clock.ts'

/**
 * Spreads repeated reads over time, so that their rate is limited whatever the number of keys is. Time is
 * divided into slots of one read each. A key reserves the first free slots after its shortest wait.
 */
export type ReadRateLimiter = ReturnType<typeof createReadRateLimiter>

interface ReadRequest {
  /** The shortest wait. A random part of up to half of it is added. */
  readonly atLeastMs: number
  /** The number of reads to reserve slots for; 1 when left out. */
  readonly reads?: number
}

interface ReadRateLimiterOptions {
  readonly readsPerSecond: number
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly random: () => number
}

/** The limit for all operators of an installation together. */
export const readsPerSecond = 5

export function createReadRateLimiter({ readsPerSecond, clock, random }: ReadRateLimiterOptions) {
  const slotMs = 1000 / readsPerSecond
  const taken = new Set<number>()
  const reserved = new Map<string, readonly number[]>()

  function release(key: string): void {
    for (const slot of reserved.get(key) ?? []) taken.delete(slot)
    reserved.delete(key)
  }

  return {
    release,
    /**
     * Reserves slots for the next reads of the key in place of its earlier ones. Returns the wait in
     * milliseconds.
     */
    reserve(key: string, { atLeastMs, reads = 1 }: ReadRequest): number {
      release(key)
      const nowMs = clock.monotonicMs()
      const slots: number[] = []
      let slot = Math.ceil((nowMs + atLeastMs * (1 + random() / 2)) / slotMs)
      for (; slots.length < reads; slot++) {
        if (taken.has(slot)) continue
        taken.add(slot)
        slots.push(slot)
      }
      reserved.set(key, slots)
      // Operators that started at the same time must not read at the same time.
      return ((slots.at(-1) ?? slot) + random()) * slotMs - nowMs
    },
  }
}
