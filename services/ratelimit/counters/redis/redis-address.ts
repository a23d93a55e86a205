export type RedisAddress = { readonly login: RedisLogin } & (
  | { readonly type: 'single'; readonly endpoint: RedisEndpoint; readonly secure: boolean }
  | { readonly type: 'sentinel'; readonly master: string; readonly sentinels: readonly NodeAddress[] }
  | { readonly type: 'cluster'; readonly seeds: readonly NodeAddress[] }
)

export interface RedisLogin {
  readonly username?: string
  readonly password?: string
  /** The number of the database. Defaults to 0. */
  readonly database?: number
}

export interface NodeAddress {
  readonly host: string
  readonly port: number
}

type RedisEndpoint = NodeAddress | { readonly path: string }

interface RedisAddressText {
  /** `single`, `sentinel` or `cluster`, in any letter case. */
  readonly type: string
  readonly url: string
  /**
   * How to read the address of a single Redis if it is a bare name: neither `host:port` nor a URL, and not
   * beginning with `/` or `.`. With `unix` it is the path of a socket; with `tcp` it is an error.
   */
  readonly socketType: 'unix' | 'tcp'
  /** See `parseLogin`; takes precedence over the URL. */
  readonly auth: string
}

const forms =
  'host:port, the path of a unix socket, or redis://[user[:password]@]host[:port][/database], or rediss://…'
const defaultPort = 6379

/**
 * Parses the address: of a single Redis, a URL, a path or `host:port`; of sentinels, `master,host:port,…`; of
 * a cluster, `host:port,…`.
 *
 * @throws Error that lists the allowed forms and never quotes the text, since that may contain a password.
 */
export function parseRedisAddress(text: RedisAddressText): RedisAddress {
  const type = text.type.toLowerCase()
  const login = parseLogin(text.auth)
  if (type === 'single') {
    const single = parseSingle(text.url, text.socketType)
    if (login.password === undefined) return { type, ...single }
    const { database } = single.login
    return { type, ...single, login: database === undefined ? login : { ...login, database } }
  }
  if (type === 'sentinel') return { type, login, ...parseSentinels(text.url) }
  if (type === 'cluster') return { type, login, seeds: parseNodes(text.url.split(','), 'the cluster') }
  throw new Error(`Unrecognized redis type ${text.type}`)
}

/** Divides `user:password` at the first colon, as envoyproxy/ratelimit does. An empty text is no login. */
export function parseLogin(auth: string): RedisLogin {
  if (auth === '') return {}
  const colon = auth.indexOf(':')
  if (colon < 0) return { password: auth }
  const username = auth.slice(0, colon)
  const password = auth.slice(colon + 1)
  return username === '' ? { password } : { username, password }
}

interface Single {
  readonly endpoint: RedisEndpoint
  readonly login: RedisLogin
  readonly secure: boolean
}

function parseSingle(text: string, socketType: 'unix' | 'tcp'): Single {
  if (/^rediss?:\/\//.test(text)) return parseUrl(text)
  const plain = { login: {}, secure: false }
  if (/^[/.]/.test(text)) return { endpoint: { path: text }, ...plain }
  const endpoint = parseHostPort(text)
  if (endpoint !== undefined) return { endpoint, ...plain }
  if (socketType === 'unix' && /^[^:@]+$/.test(text)) return { endpoint: { path: text }, ...plain }
  throw new Error(`the address of Redis must be ${forms}`)
}

/** The message for too few items is that of envoyproxy/ratelimit. */
function parseSentinels(text: string) {
  const [master = '', ...sentinels] = text.split(',').map(item => item.trim())
  if (sentinels.length === 0) {
    throw new Error(
      'Expected master name and a list of urls for the sentinels, in the format: ' +
        '<redis master name>,<sentinel1>,...,<sentineln>',
    )
  }
  if (!/^[\w.-]+$/.test(master)) {
    throw new Error(
      'the first item must be the name of the master: letters, digits, dot, dash and underscore',
    )
  }
  return { master, sentinels: parseNodes(sentinels, 'the sentinels') }
}

function parseNodes(items: readonly string[], whose: string): readonly NodeAddress[] {
  return items.map((item, index) => {
    const node = parseHostPort(item.trim())
    if (node !== undefined) return node
    throw new Error(`the addresses of ${whose} must be host:port each; number ${index + 1} of them is not`)
  })
}

function parseHostPort(text: string): NodeAddress | undefined {
  const [, bracketed, plain, digits = ''] = /^(?:\[([^[\]]+)\]|([^:/@[\]]+)):(\d+)$/.exec(text) ?? []
  const host = bracketed ?? plain
  return host === undefined ? undefined : { host, port: parsePort(digits) }
}

function parseUrl(text: string): Single {
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
    secure: url.protocol === 'rediss:',
    login: {
      ...(username === '' ? {} : { username }),
      ...(password === '' ? {} : { password }),
      ...(database === '' ? {} : { database: Number(database) }),
    },
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
  if (!isPort(port)) throw new Error(`the port of Redis is ${digits}; it must be 1 to 65535`)
  return port
}

export function isPort(port: number): boolean {
  return Number.isInteger(port) && port >= 1 && port <= 65_535
}
