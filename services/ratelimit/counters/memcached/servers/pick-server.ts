import { crc32 } from 'node:zlib'

/**
 * Returns the index of the server that has the key, in a list of `servers` servers: the CRC-32 (IEEE 802.3)
 * of the key's UTF-8 modulo their number, which is how the reference's client distributes keys. Every
 * process, of this service or of the reference, finds a counter on the same server if it has the same list in
 * the same order. A server that does not answer keeps its keys: on another server their counters would start
 * from 0.
 */
export function pickServer(key: string, servers: number): number {
  return servers === 1 ? 0 : crc32(key) % servers
}
