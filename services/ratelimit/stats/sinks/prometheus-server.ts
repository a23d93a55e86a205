import type { Server } from 'node:http'
import { pipeline, Readable } from 'node:stream'
import { createGuardedServer } from '@tollway/chassis/net/guarded-server.ts'
import { closeHttp, listenHttp } from '@tollway/chassis/net/listen-http.ts'
import { parseTarget, sendPage } from '@tollway/chassis/net/page.ts'
import type { Exposition } from './prometheus-text.ts'
import type { Sink } from './sink.ts'

export interface PrometheusServerOptions {
  readonly host: string
  readonly port: number
  readonly path: string
  expose(): Promise<Exposition>
  /**
   * Returns the page for a probe; undefined for another path. If the paths are equal, the metrics are served.
   */
  probe(path: string, query: URLSearchParams): { readonly status: number; readonly body: string } | undefined
  /** Called for every internal error; the scrape is answered with 500. */
  onDefect(error: unknown): void
}

/** How long running scrapes may take to end when the process stops. */
const closeGraceMs = 500

/**
 * Serves the metrics and the pages for probes. `flush` has no effect, because the metrics are read at each
 * scrape. Rejects with a system error (`EADDRINUSE`, …) when the address cannot be bound.
 */
export async function startPrometheusServer(
  options: PrometheusServerOptions,
): Promise<Sink & { readonly address: ReturnType<Server['address']> }> {
  const server = createGuardedServer((request, response) => {
    const answer = sendPage.bind(undefined, response)
    request.resume()
    const { path, query } = parseTarget(request)
    if (path !== options.path) {
      const { status, body } = options.probe(path, query) ?? {
        status: 404,
        body: `metrics are at ${options.path}\n`,
      }
      return answer(status, body)
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD')
      return answer(405, 'metrics support only GET\n')
    }
    options.expose().then(
      ({ contentType, pieces }) => {
        response.writeHead(200, { 'content-type': contentType })
        // A scraper that disconnects needs no answer.
        pipeline(Readable.from(pieces), response, () => {})
      },
      error => {
        options.onDefect(error)
        answer(500, 'write metrics failed: internal error\n')
      },
    )
  })
  server.requestTimeout = 10_000
  server.headersTimeout = 10_000
  await listenHttp(server, options)
  let stopping: Promise<void> | undefined
  return {
    address: server.address(),
    flush() {},
    stop() {
      stopping ??= closeHttp(server, closeGraceMs)
      return stopping
    },
  }
}
