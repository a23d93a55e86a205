import type { IncomingMessage } from 'node:http'
import type { ApiRight } from './endpoints.ts'

/** Authenticates callers of the API. */
export interface CallerAuthentication {
  /** Resolves with the caller of a request. Rejects with an `ApiError` of status 401, or 503. */
  authenticate(request: Pick<IncomingMessage, 'headers'>): Promise<ApiCaller>
}

export interface ApiCaller {
  /** The name in logs and Events. */
  readonly name: string
  /** The bearer token in a cluster, for calls of the API server in the name of the caller. Never logged. */
  readonly token?: string
  /** Rejects with an `ApiError` of status 403, or 503, if the caller does not have the right there. */
  authorize(right: ApiRight, scope: RightScope): Promise<void>
}

export interface RightScope {
  /** All namespaces if left out. */
  readonly namespace?: string | undefined
  /** The resource; any resource if left out. */
  readonly name?: string | undefined
  /**
   * The domain, if the call names it instead of the namespace. The error names it too: a caller without the
   * right must not learn the namespace of its resource, or whether there is one.
   */
  readonly domain?: string
}

/** Every process of this machine that reaches the loopback address may call the API. */
export const openAccess: CallerAuthentication = {
  async authenticate() {
    return { name: 'a user of this machine', async authorize() {} }
  },
}
