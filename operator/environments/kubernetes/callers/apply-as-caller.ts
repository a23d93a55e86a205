import { assertVersion } from '../../../api/manifest-version.ts'
import type { AppliedResource, ApplyRequest } from '../../../api/sources.ts'
import type { KubeClient } from '../api/client.ts'
import type { ApiAccess } from '../api/connection/access.ts'
import { isConflict } from '../api/connection/api-error.ts'
import type { KubeClientOptions } from '../api/connection/caller.ts'
import type { KubeObject } from '../api/kube-object.ts'
import { asCaller } from './caller-client.ts'
import { writtenResource } from './read-as-caller.ts'

/** The manager of the fields that users apply in the console. */
const fieldManager = 'tollway-console'

const rateLimitConfigs = {
  group: 'tollway.dev',
  version: 'v1alpha1',
  plural: 'ratelimitconfigs',
  namespaced: true,
}

/** The operator writes a status between the read and the apply. */
const maxAttempts = 5

/**
 * Returns a function that applies a RateLimitConfig by server-side apply with the token of the caller. It
 * rejects with an `ApiError` of the API server's status: 403 without the right, 409 with the fields of other
 * managers or if the resource has another version, 422 for content that is not allowed.
 */
export function applyAsCaller(access: ApiAccess, options: KubeClientOptions) {
  return (request: ApplyRequest): Promise<AppliedResource> =>
    asCaller(access, options, request.token, async client => {
      for (let attempt = 1; ; attempt++) {
        const before = await read(client, request)
        assertVersion(request, before && writtenResource(before).version)
        try {
          const after = await write(client, request, before)
          return { created: before === undefined, origin: 'cluster', version: writtenResource(after).version }
        } catch (error) {
          const isLast = request.version === undefined || attempt === maxAttempts
          if (isLast || !isConflict(error) || !(await hasChanged(client, request, before))) throw error
        }
      }
    })
}

const read = (client: KubeClient, { namespace, name, signal }: ApplyRequest) =>
  client.get(rateLimitConfigs, { namespace, name }, { signal })

/**
 * Applies the object. If it has a version, the API server rejects the apply when the object has been changed
 * since it was read. The uid prevents that a deleted object is created again.
 */
function write(
  client: KubeClient,
  { resource, namespace, name, version, dryRun, force, signal }: ApplyRequest,
  before: KubeObject | undefined,
): Promise<KubeObject> {
  const { apiVersion, kind, spec, metadata } = resource
  const { labels, annotations } = (metadata ?? {}) as Readonly<Record<string, object | undefined>>
  const { uid, resourceVersion } = before?.metadata ?? {}
  const expected = version === undefined ? {} : { uid, resourceVersion }
  const object = {
    ...{ apiVersion, kind, spec },
    metadata: { namespace, name, labels, annotations, ...expected },
  }
  const how = { owner: fieldManager, dryRun, force, signal }
  return client.apply(rateLimitConfigs, object as Parameters<typeof client.apply>[1], how)
}

async function hasChanged(client: KubeClient, request: ApplyRequest, before: KubeObject | undefined) {
  const now = await read(client, request)
  return now?.metadata.resourceVersion !== before?.metadata.resourceVersion
}
