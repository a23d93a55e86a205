import type { Endpoint } from '../connect-socket.ts'

/** A memcached, and how it is written. */
export interface ServerAddress {
  readonly text: string
  readonly endpoint: Endpoint
}

/** Of one list. */
export const maxServers = 1_000

const form = 'a list of host:port, such as memcached-0:11211,memcached-1:11211, or the paths of unix sockets'

/**
 * Reads a list divided by commas, or one that was divided already. Its order counts, since a key's server is
 * found by its place; a server that stands there twice gets twice the keys, as with the reference.
 *
 * @throws Error when an item is not an address, when there is none, or more than `maxServers`.
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

function parseEndpoint(text: string): Endpoint | undefined {
  if (text.includes('/')) return { path: text }
  const [, bracketed, plain, digits] = /^(?:\[([^[\]\s]+)\]|([^:[\]\s]+)):(\d{1,5})$/.exec(text) ?? []
  const host = bracketed ?? plain
  const port = Number(digits)
  return host === undefined || port < 1 || port > 65_535 ? undefined : { host, port }
}
