import { crc32 } from 'node:zlib'
import type { ServerEndpoint } from '../connections/connect-socket.ts'

export interface ServerAddress {
  readonly text: string
  readonly endpoint: ServerEndpoint
}

const maxServers = 1_000

const form = 'a list of host:port, such as memcached-0:11211,memcached-1:11211, or the paths of unix sockets'

/**
 * Parses a list divided by commas, or one that is already divided. The order matters, since a key's server is
 * found by its index. A server that occurs twice gets twice as many keys, as in envoyproxy/ratelimit.
 *
 * @throws Error when an item is not an address, and when there are no items or more than `maxServers`.
 */
export function parseServerList(list: string | readonly string[]): readonly ServerAddress[] {
  const items = (typeof list === 'string' ? list.split(',') : list).map(item => item.trim())
  if (items.length === 0 || items.length > maxServers) {
    throw new Error(`the list has ${items.length} servers; it must have 1 to ${maxServers}`)
  }
  return items.map((text, index) => {
    const endpoint = parseEndpoint(text)
    if (endpoint !== undefined) return { text, endpoint }
    throw new Error(`server ${index + 1} is ${JSON.stringify(text)}; it must be ${form}`)
  })
}

function parseEndpoint(text: string): ServerEndpoint | undefined {
  if (text.includes('/')) return { path: text }
  const [, bracketed, plain, digits] = /^(?:\[([^[\]\s]+)\]|([^:[\]\s]+)):(\d{1,5})$/.exec(text) ?? []
  const host = bracketed ?? plain
  const port = Number(digits)
  return host === undefined || port < 1 || port > 65_535 ? undefined : { host, port }
}

/**
 * Returns the index of the server that has the key, in a list of `servers` servers: the CRC-32 (IEEE 802.3)
 * of the key's UTF-8 modulo `servers`, which is how envoyproxy/ratelimit distributes keys. Every process, of
 * this service or of envoyproxy/ratelimit, that has the same list in the same order finds a counter on the
 * same server. A server that does not answer keeps its keys: on another server their counters would start
 * from 0.
 */
export function pickServer(key: string, servers: number): number {
  return servers === 1 ? 0 : crc32(key) % servers
}
