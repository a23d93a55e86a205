import type { IncomingMessage, ServerResponse } from 'node:http'

/** Returns the path of a request, which stays percent-encoded, and its query. */
export function parseTarget({ url = '' }: Pick<IncomingMessage, 'url'>): {
  readonly path: string
  readonly query: URLSearchParams
} {
  const [path = '', query = ''] = url.split('?', 2)
  return { path, query: new URLSearchParams(query) }
}

/**
 * Returns whether the query of a probe has `draining=ok`: such a probe counts a process that is shutting down
 * as healthy while it accepts calls. The probes of the operator's pods have it: if only pods that are being
 * deleted are left, Kubernetes sends calls to those that are ready.
 */
export function countsDrainingAsHealthy(query: URLSearchParams): boolean {
  return query.get('draining') === 'ok'
}

/** Ends the response with this body; `type` is its media type. */
export function sendPage(
  response: ServerResponse,
  status: number,
  body: string,
  type = 'text/plain; charset=utf-8',
): void {
  response.writeHead(status, { 'content-type': type }).end(body)
}
