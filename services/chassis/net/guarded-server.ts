import type { IncomingMessage, RequestListener, Server, ServerOptions } from 'node:http'
import { isIP } from 'node:net'
import { hostname as machineName } from 'node:os'
import { quote } from '../text.ts'
import { isLoopback } from './is-loopback.ts'
import { createServer } from './node-http.ts'

/**
 * Creates an HTTP server for pages and probes of this process, which ask for no password. It answers 403 to
 * requests that a foreign web page makes in the browser of a user who can reach the server.
 */
export function createGuardedServer(listener: RequestListener, options: ServerOptions = {}): Server {
  return createServer(options, guarded(listener))
}

/** Returns a listener that answers 403 to foreign requests. */
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
 * A name that resolves to a loopback address belongs to this machine or to an attacker (DNS rebinding). The
 * connections of `kubectl port-forward` arrive at a loopback address too, also if the server is bound to all.
 * At another address a server cannot know its names. An IP address is no name: a proxy beside this process
 * keeps that of the pod. HTTP/1.0 has no Host.
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

/** Programs send neither header; every current browser sends at least one. */
function crossSiteChange({ headers, method }: IncomingMessage): string | undefined {
  if (safeMethods.includes(method)) return undefined
  const { origin, host = '', 'sec-fetch-site': site } = headers
  if (site === 'cross-site' || site === 'same-site')
    return `a ${method} request of another site is not allowed`
  if (origin === undefined || parseAuthority(origin) === host.toLowerCase()) return undefined
  const found = `Origin is ${quote(origin)}, Host is ${quote(host)}`
  return `a ${method} request of another site is not allowed: ${found}`
}

/** `[::1]:8080` has the hostname `::1` and the port `:8080`; `localhost.` has `localhost` and no port. */
function splitHost(host: string): { readonly hostname: string; readonly port: string } {
  const [, bracketed, plain = '', port = ''] = /^(?:\[([^\]]*)\]|([^:]*))(:\d*)?$/.exec(host) ?? []
  return { hostname: bracketed ?? plain.replace(/\.$/, ''), port }
}

function parseAuthority(origin: string): string | undefined {
  return /^https?:\/\/(.*)$/.exec(origin.toLowerCase())?.[1]
}
