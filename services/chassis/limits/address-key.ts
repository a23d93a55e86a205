import { isIPv6 } from 'node:net'

const maxAddressCharacters = 64
/**
 * The groups of an IPv6 address that identify a caller: providers assign whole /64 networks, the first four
 * groups.
 */
const ipv6Groups = 4

/**
 * Returns the key of a caller: an IPv4 address (also if mapped into IPv6), or the first 64 bits of an IPv6
 * address. Any other text, which a proxy may send, is cut to 64 characters.
 * A rate limit service can count calls by this key, so its spelling must not change between versions.
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
