import { isIPv6 } from 'node:net'
import type { Clock } from '@tollway/chassis/clock.ts'

export interface RateLimit {
  /**
   * Counts one try of that key.
   *
   * @returns 0 when it may happen, else in how many milliseconds the next may
   */
  take(key: string): number
}

/** How many keys are remembered; beyond it, those that asked longest ago are forgotten. */
export const maxKeys = 10_000
const minuteMs = 60_000

/** How often each key may do something: a bucket of `perMinute` tokens, refilled at that rate. */
export function createRateLimit(perMinute: number, clock: Clock): RateLimit {
  const buckets = new Map<string, { readonly tokens: number; readonly atMs: number }>()
  const tokenMs = minuteMs / perMinute
  return {
    take(key) {
      const nowMs = clock.monotonicMs()
      const { tokens, atMs } = buckets.get(key) ?? { tokens: perMinute, atMs: nowMs }
      const there = Math.min(perMinute, tokens + (nowMs - atMs) / tokenMs)
      const mayHappen = there >= 1
      buckets.delete(key)
      buckets.set(key, { tokens: mayHappen ? there - 1 : there, atMs: nowMs })
      if (buckets.size > maxKeys) buckets.delete(buckets.keys().next().value ?? '')
      return mayHappen ? 0 : Math.ceil((1 - there) * tokenMs)
    },
  }
}

const maxAddressCharacters = 64
/** Of an IPv6 address: a subscriber has the 64 bits behind them, and any number of addresses. */
const ipv6Groups = 4

/**
 * What an address is limited as: an IPv4 address as it is, also one that is mapped into IPv6, and an IPv6 address
 * by its first 64 bits. What is no address, as a proxy may tell it, is its own text.
 */
export function addressKey(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  if (!isIPv6(address)) return address.slice(0, maxAddressCharacters)
  const [head = '', tail] = address.replace(/%.*$/, '').toLowerCase().split('::')
  const before = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length)
  const groups = [...before, ...Array.from({ length: zeros }, () => '0'), ...after]
  const prefix = groups.slice(0, ipv6Groups).map(group => group.replace(/^0+(?=.)/, ''))
  return `${prefix.join(':')}::/64`
}
