import type { IncomingMessage, RequestListener, Server, ServerOptions } from 'node:http'
import { isIP } from 'node:net'
import { hostname as machineName } from 'node:os'
import { quote } from '../text.ts'
import { isLoopback } from './is-loopback.ts'
import { createServer } from './node-http.ts'

/**
 * A server for pages and probes of this process, which need no password. Answers 403 to requests that a
 * foreign web page makes through the browser of a user who can reach the server.
 */
export function createGuardedServer(listener: RequestListener, options: ServerOptions = {}): Server {
  return createServer(options, guarded(listener))
}

/** Answers 403 to requests of foreign web pages, and passes all others on. */
export function guarded(listener: RequestListener): RequestListener {
  return (request, response) => {
    const problem = foreignHost(request) ?? crossSiteChange(request)
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
 * Returns a problem if a foreign page may have sent the Host header by DNS rebinding: the connection arrives
 * at a loopback address, as with `kubectl port-forward`, but the name does not belong to this machine.
 *
 * Always allowed are any name at another address, since the server cannot know all names of the machine; an
 * IP address, which rebinding cannot produce and a proxy in the pod may pass on; and HTTP/1.0 without Host.
 */
function foreignHost({ headers, socket }: IncomingMessage): string | undefined {
  const { host } = headers
  if (host === undefined || !isLoopback(socket.localAddress ?? '')) return undefined
  const { hostname, port } = splitHost(host)
  const isOwnName = hostname.toLowerCase() === machineName().toLowerCase()
  if (isLoopback(hostname) || isIP(hostname) !== 0 || isOwnName) return undefined
  return (
    `the Host header is ${quote(host)}, and the connection arrives at a loopback address: ` +
    `use http://localhost${port}`
  )
}

const safeMethods: readonly (string | undefined)[] = ['GET', 'HEAD', 'OPTIONS']

/**
 * Returns a problem if a page of another site sends a request that may change something. Current browsers
 * send Origin or Sec-Fetch-Site with it; programs send neither.
 */
function crossSiteChange({ headers, method }: IncomingMessage): string | undefined {
  if (safeMethods.includes(method)) return undefined
  const { origin, host = '', 'sec-fetch-site': site } = headers
  if (site === 'cross-site' || site === 'same-site')
    return `a ${method} request of another site is not allowed`
  if (origin === undefined || parseAuthority(origin) === host.toLowerCase()) return undefined
  const found = `Origin is ${quote(origin)}, Host is ${quote(host)}`
  return `a ${method} request of another site is not allowed: ${found}`
}

/** `[::1]:8080` gives `::1` and `:8080`; `localhost.` gives `localhost` and an empty port. */
function splitHost(host: string): { readonly hostname: string; readonly port: string } {
  const [, bracketed, plain = '', port = ''] = /^(?:\[([^\]]*)\]|([^:]*))(:\d*)?$/.exec(host) ?? []
  return { hostname: bracketed ?? plain.replace(/\.$/, ''), port }
}

function parseAuthority(origin: string): string | undefined {
  return /^https?:\/\/(.*)$/.exec(origin.toLowerCase())?.[1]
}
