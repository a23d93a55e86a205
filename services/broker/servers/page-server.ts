import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import { createGuardedServer } from '@tollway/chassis/net/guarded-server.ts'
import { PageError } from './admin-errors.ts'

/** Answers a request for a page. A `PageError` that it throws, or rejects with, is the response. */
export type PageHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  query: URLSearchParams,
) => void | Promise<void>

/** Returns undefined if there is no such page. */
export type FindPage = (path: string, method: string) => PageHandler | undefined

const textType = 'text/plain; charset=utf-8'
export const jsonType = 'application/json'

export function send(response: ServerResponse, status: number, body: string, type = textType): void {
  response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' })
  response.end(body)
}

/** @param notFound the text for a path without a page */
export function createPageServer(find: FindPage, notFound: string): Server {
  const server = createGuardedServer(pageListener(find, notFound))
  server.requestTimeout = requestTimeoutMs
  server.headersTimeout = requestTimeoutMs
  return server
}

/** The time in which a whole request must arrive. */
export const requestTimeoutMs = 10_000

export function pageListener(find: FindPage, notFound: string, sendError = sendErrorText): RequestListener {
  return async (request, response) => {
    request.resume()
    const [path = '', query = ''] = (request.url ?? '').split('?', 2)
    try {
      const page = find(path, request.method ?? '')
      if (page === undefined) throw new PageError('not-found', notFound)
      await page(request, response, new URLSearchParams(query))
    } catch (error) {
      if (!(error instanceof PageError)) throw error
      sendError(response, error)
    }
  }
}

const sendErrorText = (response: ServerResponse, { status, message }: PageError) =>
  send(response, status, `${message}\n`)
