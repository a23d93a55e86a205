import { expositionType } from '@tollway/chassis/metrics/exposition-format.ts'
import { createGuardedServer } from '@tollway/chassis/net/guarded-server.ts'
import { closeHttp, listenHttp } from '@tollway/chassis/net/listen-http.ts'
import { countsDrainingAsHealthy, parseTarget, sendPage } from '@tollway/chassis/net/page.ts'
import type { PortAddress } from '@tollway/chassis/net/taken-ports.ts'
import type { Metrics } from '../../metrics.ts'

interface MonitorServerOptions {
  readonly metrics: Metrics
  readonly ready: () => Promise<boolean>
  /**
   * Whether the service accepts requests. Unlike `ready`, it stays true during the shutdown until the service
   * closes its ports.
   */
  readonly accepts: () => boolean
  /** Returns why the database fails; empty if it answers. */
  readonly backendProblem: () => string
}

type Page = (query: URLSearchParams) => Promise<readonly [status: number, body: string, type?: string]>

const requestTimeoutMs = 10_000

export function createMonitorServer(options: MonitorServerOptions) {
  const { metrics, ready, accepts, backendProblem } = options
  const pages: Readonly<Record<string, Page>> = {
    '/metrics': async () => [200, metrics.expose(), expositionType],
    '/stats': async query => statsPage(metrics, query.get('format') === 'json'),
    '/healthz': async () => [200, 'alive\n'],
    '/readyz': async query => {
      const isReady = countsDrainingAsHealthy(query) ? accepts() : await ready()
      return isReady ? [200, 'ready\n'] : [503, 'not ready\n']
    },
    '/backend': async () => (backendProblem() === '' ? [200, 'OK\n'] : [503, `${backendProblem()}\n`]),
  }
  const server = createGuardedServer((request, response) => {
    request.resume()
    const { path, query } = parseTarget(request)
    const page = Object.hasOwn(pages, path) ? pages[path] : undefined
    const send = sendPage.bind(undefined, response)
    if (page === undefined)
      return send(404, `unknown page; expected one of ${Object.keys(pages).join(', ')}\n`)
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD')
      return send(405, 'method not allowed; expected GET or HEAD\n')
    }
    page(query).then(
      found => send(...found),
      () => send(500, 'internal error\n'),
    )
  })
  server.requestTimeout = requestTimeoutMs
  server.headersTimeout = requestTimeoutMs
  return {
    /** @throws Error of the operating system if the server cannot listen on the address */
    listen: (address: PortAddress) => listenHttp(server, address),
    close: () => closeHttp(server, 0),
  }
}

function statsPage(metrics: Metrics, asJson: boolean): readonly [number, string, string?] {
  const entries = metrics.entries()
  if (asJson) return [200, `${JSON.stringify(Object.fromEntries(entries))}\n`, 'application/json']
  return [200, entries.map(([name, value]) => `${name}: ${value}\n`).join('')]
}
