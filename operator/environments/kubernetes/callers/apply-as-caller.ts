import { ApiError } from '../../../api/api-error.ts'
import type { AppliedResource, ApplyRequest } from '../../../api/sources.ts'
import { createKubeClient } from '../api/client.ts'
import type { ApiAccess, Credentials } from '../api/connection/access.ts'
import { KubeApiError } from '../api/connection/api-error.ts'
import type { KubeClientOptions } from '../api/connection/caller.ts'

/** The manager of the fields that users apply in the console. */
const fieldManager = 'tollway-console'

const rateLimitConfigs = {
  group: 'tollway.dev',
  version: 'v1alpha1',
  plural: 'ratelimitconfigs',
  namespaced: true,
}

/**
 * Returns a function that applies a RateLimitConfig by server-side apply with the token of the caller. The
 * credentials of the operator are not used. It rejects with an `ApiError` of the API server's status: 403
 * without the right, 409 with the fields of other managers, 422 for content that is not allowed.
 */
export function applyAsCaller(access: ApiAccess, options: KubeClientOptions) {
  return async (request: ApplyRequest): Promise<AppliedResource> => {
    const { namespace, name, token, dryRun, force, signal } = request
    if (token === undefined) throw new ApiError(401, 'unauthenticated', 'there is no bearer token')
    const credentials = await credentialsOf(access, token)
    const client = createKubeClient({ ...access, credentials: async () => credentials }, options)
    const { apiVersion, kind, spec, metadata } = request.resource
    const { labels, annotations } = (metadata ?? {}) as Readonly<Record<string, object | undefined>>
    const object = { apiVersion, kind, metadata: { namespace, name, labels, annotations }, spec }
    try {
      const before = await client.get(rateLimitConfigs, { namespace, name }, { signal })
      const how = { owner: fieldManager, dryRun, force, signal }
      await client.apply(rateLimitConfigs, object as Parameters<typeof client.apply>[1], how)
      return { created: before === undefined, origin: 'cluster' }
    } catch (error) {
      throw error instanceof KubeApiError ? apiErrorOf(error) : error
    } finally {
      client.close()
    }
  }
}

/** Returns the token with the authority of the API server as the operator knows it. */
async function credentialsOf(access: ApiAccess, token: string): Promise<Credentials> {
  const { tls, agent } = await access.credentials()
  // The agent of a proxy holds the operator's client certificate, which would take precedence.
  if (agent !== undefined)
    throw new ApiError(501, 'proxy', 'apply: not possible with proxy-url in the kubeconfig')
  const { cert: _, key: __, auth: ___, ...server } = tls
  return { headers: { authorization: `Bearer ${token}` }, tls: server }
}

function apiErrorOf({ code, reason, message }: KubeApiError): ApiError {
  const status = code >= 400 && code < 500 ? code : 503
  return new ApiError(status, reason.toLowerCase(), message)
}
