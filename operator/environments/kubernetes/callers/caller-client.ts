import { rateLimitConfigKind } from '@tollway/crds/rate-limit-config.ts'
import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import { dump } from 'js-yaml'
import { ApiError, type ApiErrorCode, errorOfField } from '../../../api/errors.ts'
import type { AppliedResource, ApplyRequest, ManifestRequest, WrittenResource } from '../../../api/sources.ts'
import { assertVersion, hashManifest } from '../../../api/sources.ts'
import { isConflict } from '../../../controller/lease-elector.ts'
import type { KubeApiAccess, KubeCredentials } from '../api/access.ts'
import { KubeApiError } from '../api/api-error.ts'
import type { KubeClientOptions } from '../api/caller.ts'
import { createKubeClient, type KubeClient } from '../api/client.ts'
import { customResource } from '../api/custom-resources.ts'
import type { KubeObject } from '../api/kube-object.ts'

/** The field manager of what users apply in the console. */
const fieldManager = 'tollway-console'

const rateLimitConfigs = customResource(rateLimitConfigKind)

/**
 * An apply is tried this many times, because the operator may write the status between the read and the
 * apply.
 */
const maxAttempts = 5

/**
 * Returns a function that applies a RateLimitConfig by server-side apply with the token of the caller. It
 * rejects with an `ApiError` that has the status of the API server: 403 without the right; 409 for fields of
 * other managers, or if the resource has another version than the request; 422 for invalid content.
 */
export function applyAsCaller(access: KubeApiAccess, options: KubeClientOptions) {
  return (request: ApplyRequest): Promise<AppliedResource> =>
    asCaller(access, options, request.token, async client => {
      for (let attempt = 1; ; attempt++) {
        const before = await read(client, request)
        assertVersion(request, before && toWrittenResource(before).version)
        try {
          const after = await write(client, request, before)
          return {
            created: before === undefined,
            origin: 'cluster',
            version: toWrittenResource(after).version,
          }
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
 * Applies the resource. If the request has a version, the API server rejects the apply when the object has
 * changed since `before` was read. The uid prevents that a deleted object is created again.
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
    apiVersion,
    kind,
    spec,
    metadata: { namespace, name, labels, annotations, ...expected },
  }
  const how = { owner: fieldManager, dryRun, force, signal }
  return client.apply(rateLimitConfigs, object as Parameters<typeof client.apply>[1], how)
}

async function hasChanged(client: KubeClient, request: ApplyRequest, before: KubeObject | undefined) {
  const now = await read(client, request)
  return now?.metadata.resourceVersion !== before?.metadata.resourceVersion
}

/**
 * Calls the API server with the token of a caller, and without the operator's credentials. Rejects with an
 * `ApiError` that has the status of the API server; 401 without a token.
 */
async function asCaller<Result>(
  access: KubeApiAccess,
  options: KubeClientOptions,
  token: string | undefined,
  call: (client: KubeClient) => Promise<Result>,
): Promise<Result> {
  if (token === undefined) throw new ApiError('unauthenticated', 'missing bearer token')
  const credentials = await makeCallerCredentials(access, token)
  const client = createKubeClient({ ...access, credentials: async () => credentials }, options)
  try {
    return await call(client)
  } catch (error) {
    throw error instanceof KubeApiError ? fromKubeApiError(error) : error
  } finally {
    client.close()
  }
}

/**
 * Returns credentials with the caller's token, and with the server's authority from the operator's own
 * credentials.
 */
async function makeCallerCredentials(access: KubeApiAccess, token: string): Promise<KubeCredentials> {
  const { tls, agent } = await access.credentials()
  // The agent of a proxy has the operator's client certificate, which would take precedence over the token.
  if (agent !== undefined) {
    const message = 'calls with the token of the caller are not possible with proxy-url in the kubeconfig'
    throw new ApiError('proxy', message)
  }
  const { cert: _, key: __, auth: ___, ...server } = tls
  return { headers: { authorization: `Bearer ${token}` }, tls: server }
}

/**
 * The error codes by the API server's reasons, of which only those are listed that a caller can do something
 * about.
 */
const codesOfReasons: Readonly<Record<string, ApiErrorCode>> = {
  AlreadyExists: 'conflict',
  Conflict: 'conflict',
  Forbidden: 'forbidden',
  Invalid: 'invalid',
  NotFound: 'not-found',
  RequestEntityTooLarge: 'too-large',
  TooManyRequests: 'too-many',
  Unauthorized: 'unauthenticated',
}

/** Returns an error with the API server's words, without the request that the operator made. */
function fromKubeApiError({ code, reason, message }: KubeApiError): ApiError {
  const isOfCaller = code >= 400 && code < 500
  const before = `: ${code} ${reason}: `
  const at = message.indexOf(before)
  const words = at < 0 ? message : message.slice(at + before.length)
  const known = isOfCaller ? codesOfReasons[reason] : undefined
  return new ApiError(known ?? 'api-server', words, { status: isOfCaller ? code : 503 })
}

/** `kubectl apply` stores a copy of the whole object in this annotation. */
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'

/**
 * Returns a function that reads a resource with the token of the caller. The result has no status and no
 * fields that the API server sets. It rejects with an `ApiError` that has the status of the API server.
 */
export function readAsCaller(access: KubeApiAccess, options: KubeClientOptions) {
  return ({ kind, namespace, name, token, signal }: ManifestRequest): Promise<WrittenResource> =>
    asCaller(access, options, token, async client => {
      const known = resourceKinds.find(one => one.kind === kind)
      const found = known && (await client.get(customResource(known), { namespace, name }, { signal }))
      if (found !== undefined) return toWrittenResource(found)
      const message = `there is no ${kind} ${namespace}/${name}`
      throw errorOfField('not-found', 'name', message)
    })
}

/** Returns the fields that the author of an object writes, as YAML, with the object's version. */
function toWrittenResource({ apiVersion, kind, metadata, ...content }: KubeObject): WrittenResource {
  const { namespace, name, labels, annotations } = metadata as KubeObject['metadata'] & {
    readonly labels?: Readonly<Record<string, string>>
    readonly annotations?: Readonly<Record<string, string>>
  }
  const { [lastApplied]: _, ...own } = annotations ?? {}
  const written = {
    apiVersion,
    kind,
    metadata: {
      name,
      namespace,
      ...(labels && { labels }),
      ...(Object.keys(own).length > 0 && { annotations: own }),
    },
    spec: (content as { readonly spec?: unknown }).spec,
  }
  const manifest = dump(written, { noRefs: true, lineWidth: 100, skipInvalid: true })
  return { manifest, version: hashManifest(manifest), origin: 'cluster' }
}
