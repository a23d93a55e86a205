import type { IncomingMessage } from 'node:http'
import type { ApiRight } from './endpoints.ts'

/** How callers of the API are authenticated: in a cluster by a token, on one machine not at all. */
export interface CallerAuthentication {
  /**
   * Resolves with the caller of a request. Rejects with an `ApiError` of status 401, or 503 if the caller
   * cannot be checked.
   */
  authenticate(request: Pick<IncomingMessage, 'headers'>): Promise<ApiCaller>
}

export interface ApiCaller {
  /** The name of the caller in logs and Events. */
  readonly name: string
  /**
   * The bearer token in a cluster, with which the operator calls the API server as the caller. Never logged.
   */
  readonly token?: string
  /**
   * Rejects with an `ApiError`: 403 if the caller does not have the right in this scope, 503 if that cannot
   * be checked.
   */
  authorize(right: ApiRight, scope: RightScope): Promise<void>
}

export interface RightScope {
  /** The namespace; all namespaces if left out. */
  readonly namespace?: string | undefined
  /** The name of the resource; every resource if left out. */
  readonly name?: string | undefined
  /**
   * The domain, if the call names a domain instead of a namespace. The error then names only the domain: a
   * caller without the right must not learn whether a resource has the domain, and in which namespace.
   */
  readonly domain?: string
}

/** Every process of this machine that reaches the loopback address may call the API. */
export const openAccess: CallerAuthentication = {
  async authenticate() {
    return { name: 'a user of this machine', async authorize() {} }
  },
}
