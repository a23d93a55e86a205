import type { IncomingMessage, ServerResponse } from 'node:http'

/** Returns the path and the query of a request. */
export function parseTarget({ url = '' }: Pick<IncomingMessage, 'url'>): {
  readonly path: string
  readonly query: URLSearchParams
} {
  const [path = '', query = ''] = url.split('?', 2)
  return { path, query: new URLSearchParams(query) }
}

/**
 * Returns whether a probe counts a process that is shutting down as healthy while it accepts calls, as the
 * probes of the operator's pods do: `?draining=ok`. Kubernetes sends calls to pods that are being deleted only
 * if these are ready, and no other pod is.
 */
export function countsDrainingAsHealthy(query: URLSearchParams): boolean {
  return query.get('draining') === 'ok'
}

/** Answers with a whole body, which is text unless `type` says otherwise. */
export function sendPage(
  response: ServerResponse,
  status: number,
  body: string,
  type = 'text/plain; charset=utf-8',
): void {
  response.writeHead(status, { 'content-type': type }).end(body)
}
