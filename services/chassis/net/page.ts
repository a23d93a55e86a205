import type { IncomingMessage, ServerResponse } from 'node:http'

/** Returns the path, still percent-encoded, and the query. */
export function parseTarget({ url = '' }: Pick<IncomingMessage, 'url'>): {
  readonly path: string
  readonly query: URLSearchParams
} {
  const [path = '', query = ''] = url.split('?', 2)
  return { path, query: new URLSearchParams(query) }
}

/**
 * A probe with `draining=ok` counts a process that is shutting down as healthy while it accepts calls. The
 * operator's pods have it: if only pods that are being deleted are left, Kubernetes sends calls to the ready
 * ones.
 */
export function countsDrainingAsHealthy(query: URLSearchParams): boolean {
  return query.get('draining') === 'ok'
}

export function sendPage(
  response: ServerResponse,
  status: number,
  body: string,
  type = 'text/plain; charset=utf-8',
): void {
  response.writeHead(status, { 'content-type': type }).end(body)
}
