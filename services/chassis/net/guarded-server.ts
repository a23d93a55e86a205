import type { IncomingMessage, RequestListener, Server, ServerOptions } from 'node:http'
import type { AddressInfo } from 'node:net'
import { isLoopback } from './is-loopback.ts'
import { createServer } from './node-http.ts'

/**
 * Creates an HTTP server for pages and probes of this process, which ask for no password. It answers 403 to
 * requests that a foreign web page makes in the browser of a user who can reach the server.
 */
export function createGuardedServer(listener: RequestListener, options: ServerOptions = {}): Server {
  const server: Server = createServer(
    options,
    guarded(listener, () => server.address()),
  )
  return server
}

/**
 * Returns a listener that answers 403 to foreign requests.
 *
 * @param address the address to which the server is bound
 */
export function guarded(listener: RequestListener, address: Server['address']): RequestListener {
  return (request, response) => {
    const problem = foreignHost(request, address()) ?? crossSiteChange(request)
    if (problem === undefined) return listener(request, response)
    const body = `${problem}\n`
    request.resume()
    response.writeHead(403, {
      'content-type': 'text/plain; charset=utf-8',
      'content-length': Buffer.byteLength(body),
      'x-content-type-options': 'nosniff',
    })
    response.end(body)
  }
}

/**
 * A name that resolves to a loopback address belongs to this machine or to an attacker (DNS rebinding). A
 * server that is bound to another address cannot know its names. HTTP/1.0 has no Host.
 */
function foreignHost({ headers }: IncomingMessage, address: AddressInfo | string | null): string | undefined {
  const { host } = headers
  const isLocal = typeof address === 'object' && address !== null && isLoopback(address.address)
  if (!isLocal || host === undefined || isLoopback(hostnameOf(host))) return undefined
  return (
    `the Host header is ${quote(host)}, and this port is bound to a loopback address: ` +
    `use http://localhost:${address.port}`
  )
}

const safeMethods: readonly (string | undefined)[] = ['GET', 'HEAD', 'OPTIONS']

/** Programs send neither header; every current browser sends at least one. */
function crossSiteChange({ headers, method }: IncomingMessage): string | undefined {
  if (safeMethods.includes(method)) return undefined
  const { origin, host = '', 'sec-fetch-site': site } = headers
  if (site === 'cross-site' || site === 'same-site')
    return `a ${method} request of another site is not allowed`
  if (origin === undefined || authorityOf(origin) === host.toLowerCase()) return undefined
  const found = `Origin is ${quote(origin)}, Host is ${quote(host)}`
  return `a ${method} request of another site is not allowed: ${found}`
}

/** `[::1]:8080` is `::1`; `localhost.:80` is `localhost`. */
function hostnameOf(host: string): string {
  const [, bracketed, plain = ''] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(host) ?? []
  return bracketed ?? plain.replace(/\.$/, '')
}

function authorityOf(origin: string): string | undefined {
  return /^https?:\/\/(.*)$/.exec(origin.toLowerCase())?.[1]
}

const maxQuoted = 200

const quote = (text: string) => JSON.stringify(text.slice(0, maxQuoted))
