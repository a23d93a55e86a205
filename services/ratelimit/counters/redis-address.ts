/** Where a single Redis listens, and how a connection to it begins. */
export interface RedisAddress {
  readonly endpoint: { readonly host: string; readonly port: number } | { readonly path: string }
  readonly username?: string
  readonly password?: string
  /** The number of the database; 0 when left out. */
  readonly database?: number
}

const forms = 'host:port, the path of a unix socket, or redis://[user[:password]@]host[:port][/database]'
const defaultPort = 6379

/**
 * Reads an address. Its form tells what it is; the socket type only decides on a name that is neither
 * `host:port` nor begins as a path does.
 *
 * @param auth `password`, or `user:password` divided at the first colon, as the reference does; it goes
 * before
 *   what the URL says. Empty for none.
 * @throws Error that tells the forms and never the text, since that may hold a password.
 */
export function parseRedisAddress(text: string, socketType: 'unix' | 'tcp', auth: string): RedisAddress {
  const address = parseAddress(text, socketType)
  if (auth === '') return address
  const colon = auth.indexOf(':')
  if (colon < 0) return { ...withoutUser(address), password: auth }
  const username = auth.slice(0, colon)
  const password = auth.slice(colon + 1)
  return { ...withoutUser(address), password, ...(username === '' ? {} : { username }) }
}

function withoutUser({ endpoint, database }: RedisAddress): RedisAddress {
  return database === undefined ? { endpoint } : { endpoint, database }
}

function parseAddress(text: string, socketType: 'unix' | 'tcp'): RedisAddress {
  if (text.startsWith('redis://')) return parseUrl(text)
  if (text.startsWith('rediss://'))
    throw new Error('the address of Redis: rediss:// (TLS) is not supported yet')
  if (/^[/.]/.test(text)) return { endpoint: { path: text } }
  const [, bracketed, plain, digits = ''] = /^(?:\[([^[\]]+)\]|([^:/@[\]]+)):(\d+)$/.exec(text) ?? []
  const host = bracketed ?? plain
  if (host !== undefined) return { endpoint: { host, port: parsePort(digits) } }
  if (socketType === 'unix' && /^[^:@]+$/.test(text)) return { endpoint: { path: text } }
  throw new Error(`the address of Redis must be ${forms}`)
}

function parseUrl(text: string): RedisAddress {
  const url = URL.parse(text)
  const database = /^\/?(\d{0,9})$/.exec(url?.pathname ?? 'none')?.[1]
  if (url === null || url.hostname === '' || database === undefined || url.search + url.hash !== '') {
    throw new Error(`the address of Redis must be ${forms}`)
  }
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const port = url.port === '' ? defaultPort : parsePort(url.port)
  const username = decode(url.username)
  const password = decode(url.password)
  return {
    endpoint: { host, port },
    ...(username === '' ? {} : { username }),
    ...(password === '' ? {} : { password }),
    ...(database === '' ? {} : { database: Number(database) }),
  }
}

function decode(encoded: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    throw new Error('the address of Redis: user and password must be percent-encoded')
  }
}

function parsePort(digits: string): number {
  const port = Number(digits)
  if (port < 1 || port > 65_535) throw new Error(`the port of Redis is ${digits}; it must be 1 to 65535`)
  return port
}
