import { ApiError } from '../../../api/api-error.ts'
import { createKubeClient, type KubeClient } from '../api/client.ts'
import type { ApiAccess, Credentials } from '../api/connection/access.ts'
import { KubeApiError } from '../api/connection/api-error.ts'
import type { KubeClientOptions } from '../api/connection/caller.ts'

/**
 * Calls the API server with the token of a caller. The credentials of the operator are not used. Rejects with
 * an `ApiError` of the API server's status, and with 401 without a token.
 */
export async function asCaller<Result>(
  access: ApiAccess,
  options: KubeClientOptions,
  token: string | undefined,
  call: (client: KubeClient) => Promise<Result>,
): Promise<Result> {
  if (token === undefined) throw new ApiError(401, 'unauthenticated', 'missing bearer token')
  const credentials = await credentialsOf(access, token)
  const client = createKubeClient({ ...access, credentials: async () => credentials }, options)
  try {
    return await call(client)
  } catch (error) {
    throw error instanceof KubeApiError ? apiErrorOf(error) : error
  } finally {
    client.close()
  }
}

/** Returns the token with the authority of the API server as the operator knows it. */
async function credentialsOf(access: ApiAccess, token: string): Promise<Credentials> {
  const { tls, agent } = await access.credentials()
  // The agent of a proxy holds the operator's client certificate, which would take precedence.
  if (agent !== undefined) {
    const message = 'calls with the token of the caller are not possible with proxy-url in the kubeconfig'
    throw new ApiError(501, 'proxy', message)
  }
  const { cert: _, key: __, auth: ___, ...server } = tls
  return { headers: { authorization: `Bearer ${token}` }, tls: server }
}

/** Returns the error with the words of the API server, without the call that the operator made. */
function apiErrorOf({ code, reason, message }: KubeApiError): ApiError {
  const status = code >= 400 && code < 500 ? code : 503
  const before = `: ${code} ${reason}: `
  const at = message.indexOf(before)
  return new ApiError(status, reason.toLowerCase(), at < 0 ? message : message.slice(at + before.length))
}
