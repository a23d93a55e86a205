import { crc32 } from 'node:zlib'

/**
 * The place of the server that holds the key, in a list of so many: the CRC-32 (IEEE 802.3) of the key's
 * UTF-8 modulo their number, which is how the reference's client spreads keys. So every process, ours or the
 * reference's, finds a counter in the same place if it has the same list in the same order. A server that
 * does not answer keeps its keys: to count them elsewhere would begin them anew.
 */
export function pickServer(key: string, servers: number): number {
  return servers === 1 ? 0 : crc32(key) % servers
}
