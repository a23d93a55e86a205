import type { Clock } from '@tollway/chassis/clock.ts'

export interface SignUpLimit {
  /**
   * Counts one sign-up from that address.
   *
   * @returns 0 when it may happen, else in how many milliseconds the next may
   */
  take(address: string): number
}

/** How many addresses are remembered; beyond it, those that asked longest ago are forgotten. */
const maxAddresses = 10_000
const minuteMs = 60_000

/** How often an address may make a new app: a bucket of `perMinute` tokens, refilled at that rate. */
export function createSignUpLimit(perMinute: number, clock: Clock): SignUpLimit {
  const buckets = new Map<string, { readonly tokens: number; readonly atMs: number }>()
  const tokenMs = minuteMs / perMinute
  return {
    take(address) {
      const nowMs = clock.monotonicMs()
      const { tokens, atMs } = buckets.get(address) ?? { tokens: perMinute, atMs: nowMs }
      const there = Math.min(perMinute, tokens + (nowMs - atMs) / tokenMs)
      const mayHappen = there >= 1
      buckets.delete(address)
      buckets.set(address, { tokens: mayHappen ? there - 1 : there, atMs: nowMs })
      if (buckets.size > maxAddresses) buckets.delete(buckets.keys().next().value ?? '')
      return mayHappen ? 0 : Math.ceil((1 - there) * tokenMs)
    },
  }
}
