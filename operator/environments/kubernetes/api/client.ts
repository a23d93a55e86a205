import { isObject } from '@tollway/chassis/is-object.ts'
import type { ReflectorSource } from '../../../controller/reflector.ts'
import type { KubeApiAccess } from './access.ts'
import { isNotFound, KubeApiError } from './api-error.ts'
import { KubeCaller, type KubeClientOptions } from './caller.ts'
import {
  type ApiResource,
  isKubeObject,
  type KubeObject,
  type ObjectKey,
  type ObjectVersion,
} from './kube-object.ts'
import type { WatchEvent } from './transport.ts'

/** The operator's name in `managedFields`. */
export const fieldOwner = 'tollway'

/**
 * A client of the API server for objects of any kind. Each call rejects with a `KubeApiError`. A call is
 * repeated only when the API server asks for it (429, or 503 with Retry-After), after the requested time and
 * within the time limit of the call. All other failures are left to the caller.
 */
export interface KubeClient {
  /** Resolves with undefined if the object does not exist. */
  get(resource: ApiResource, key: ObjectKey, options?: CallOptions): Promise<KubeObject | undefined>
  /** Resolves with one page. Its `continue` requests the next page. After a 410 the list must start again. */
  list(resource: ApiResource, options: ListOptions): Promise<ListPage>
  /**
   * Yields the events after `resourceVersion` until the server or the signal ends the watch. Callers must use
   * the signal to end a watch that falls silent. An error event rejects with its code.
   */
  watch(resource: ApiResource, options: WatchOptions): AsyncGenerator<WatchEvent>
  /** Creates the object. Rejects with 409 `AlreadyExists` if it exists. */
  create(resource: ApiResource, object: KubeObject, options?: CallOptions): Promise<KubeObject>
  /** Replaces the whole object. Rejects with 409 if its resourceVersion has changed. */
  replace(resource: ApiResource, object: KubeObject, options?: CallOptions): Promise<KubeObject>
  /** Sets and owns the fields of `object` by server-side apply; creates the object if it does not exist. */
  apply(resource: ApiResource, object: KubeObject, options?: ApplyOptions): Promise<KubeObject>
  /** Sets and owns the fields of the object's status by server-side apply. Never creates an object. */
  applyStatus(resource: ApiResource, object: KubeObject, options?: ApplyOptions): Promise<KubeObject>
  /**
   * Sets the finalizers. Rejects with 409 if the object has changed since that version or was replaced by
   * another one.
   */
  setFinalizers(
    resource: ApiResource,
    version: ObjectKey & { readonly resourceVersion: string },
    finalizers: readonly string[],
    options?: CallOptions,
  ): Promise<KubeObject>
  /** Creates a review, which is not stored. Resolves with the review and its `status`. */
  review(
    resource: ApiResource,
    review: Readonly<Record<string, unknown>>,
    options?: CallOptions,
  ): Promise<Readonly<Record<string, unknown>>>
  /**
   * Requests the deletion of this object. Rejects with 409 if another object has its name. Resolves if the
   * object does not exist.
   */
  delete(resource: ApiResource, version: ObjectVersion, options?: CallOptions): Promise<void>
  close(): void
}

interface CallOptions {
  readonly signal?: AbortSignal | undefined
}

interface ApplyOptions extends CallOptions {
  /** Whether fields of other owners are taken over. Otherwise they cause a 409. */
  readonly force?: boolean
  /** The owner of the fields; `fieldOwner` by default. */
  readonly owner?: string
  /** Whether the API server only validates the object and fills in defaults, without storing it. */
  readonly dryRun?: boolean
}

export interface Selection {
  /** The namespace; undefined for all namespaces. */
  readonly namespace?: string | undefined
  readonly labelSelector?: string | undefined
  readonly fieldSelector?: string | undefined
}

interface ListOptions extends Selection, CallOptions {
  readonly limit: number
  readonly continue?: string | undefined
}

interface ListPage {
  readonly items: readonly KubeObject[]
  readonly resourceVersion: string
  /** The token for the next page; left out on the last page. */
  readonly continue?: string
}

interface WatchOptions extends Selection {
  readonly resourceVersion: string
  /** The server ends the watch after this time. */
  readonly timeoutSeconds: number
  readonly signal: AbortSignal
}

/**
 * Creates a client with one identity. Limits that are not set in the options have the values of
 * `defaultLimits`.
 */
export function createKubeClient(access: KubeApiAccess, options: KubeClientOptions): KubeClient {
  const caller = new KubeCaller(access, options)

  async function ask(
    method: string,
    resource: ApiResource,
    path: string,
    how: RequestBody,
  ): Promise<KubeObject> {
    return toObject(await caller.call({ resource, method, path, ...how }), `${method} ${path}`)
  }

  async function apply(
    resource: ApiResource,
    object: KubeObject,
    { force = false, owner = fieldOwner, dryRun = false, signal }: ApplyOptions = {},
    subresource?: string,
  ): Promise<KubeObject> {
    const path = withQuery(objectPath(resource, object.metadata, subresource), {
      fieldManager: owner,
      force,
      ...(dryRun && { dryRun: 'All' }),
    })
    return ask('PATCH', resource, path, { body: object, contentType: 'application/apply-patch+yaml', signal })
  }

  return {
    get: (resource, key, { signal } = {}) =>
      unlessNotFound(() => ask('GET', resource, objectPath(resource, key), { signal })),
    async list(resource, { namespace, signal, ...query }) {
      const path = withQuery(collectionPath(resource, namespace), query)
      return toPage(await caller.call({ resource, method: 'GET', path, signal }), `list ${path}`)
    },
    watch(resource, { namespace, signal, ...query }) {
      const asked = { ...query, watch: true, allowWatchBookmarks: true }
      const path = withQuery(collectionPath(resource, namespace), asked)
      return caller.watch({ resource, method: 'GET', path, signal })
    },
    async create(resource, object, { signal } = {}) {
      return ask('POST', resource, withFieldManager(creationPath(resource, object.metadata)), {
        body: object,
        signal,
      })
    },
    async replace(resource, object, { signal } = {}) {
      return ask('PUT', resource, withFieldManager(objectPath(resource, object.metadata)), {
        body: object,
        signal,
      })
    },
    apply: (resource, object, options) => apply(resource, object, options),
    applyStatus: (resource, object, options) => apply(resource, object, options, 'status'),
    async setFinalizers(resource, version, finalizers, { signal } = {}) {
      const body = { metadata: { resourceVersion: version.resourceVersion, finalizers } }
      const contentType = 'application/merge-patch+json'
      return ask('PATCH', resource, withFieldManager(objectPath(resource, version)), {
        body,
        contentType,
        signal,
      })
    },
    review(resource, body, { signal } = {}) {
      return caller.call({
        resource,
        method: 'POST',
        path: collectionPath(resource, undefined),
        body,
        signal,
      })
    },
    async delete(resource, version, { signal } = {}) {
      const { uid, resourceVersion } = version
      const body = { kind: 'DeleteOptions', apiVersion: 'v1', preconditions: { uid, resourceVersion } }
      const path = objectPath(resource, version)
      await unlessNotFound(() => caller.call({ resource, method: 'DELETE', path, body, signal }))
    },
    close: () => caller.close(),
  }
}

interface RequestBody {
  readonly body?: unknown
  readonly contentType?: string
  readonly signal?: AbortSignal | undefined
}

function withFieldManager(path: string): string {
  return withQuery(path, { fieldManager: fieldOwner })
}

async function unlessNotFound<T>(operation: () => Promise<T>): Promise<T | undefined> {
  try {
    return await operation()
  } catch (error) {
    if (isNotFound(error)) return undefined
    throw error
  }
}

function toObject(body: unknown, name: string): KubeObject {
  if (isKubeObject(body)) return body
  throw new KubeApiError(0, 'BadAnswer', `${name}: the answer is not an object with metadata.name`)
}

function toPage(body: unknown, name: string): ListPage {
  const { metadata, items } = isObject(body) ? body : {}
  const { resourceVersion, continue: more } = isObject(metadata) ? metadata : {}
  if (!Array.isArray(items) || !items.every(isKubeObject) || typeof resourceVersion !== 'string') {
    throw new KubeApiError(0, 'BadAnswer', `${name}: the answer is not a list of objects`)
  }
  return { items, resourceVersion, ...(typeof more === 'string' && more !== '' ? { continue: more } : {}) }
}

export function createReflectorSource(
  client: Pick<KubeClient, 'list' | 'watch'>,
  resource: ApiResource,
  selectors: Omit<Selection, 'namespace'> = {},
): ReflectorSource<KubeObject> {
  return {
    list: request => client.list(resource, { ...selectors, ...request }),
    watch: request => client.watch(resource, { ...selectors, ...request }),
  }
}

type Query = Readonly<Record<string, string | number | boolean | undefined>>

/** Returns the path of all objects of a kind in one namespace, or in all if it is undefined. */
export function collectionPath(resource: ApiResource, namespace: string | undefined): string {
  const { group, version, plural, namespaced } = resource
  const root = group === '' ? `/api/${segment(version)}` : `/apis/${segment(group)}/${segment(version)}`
  const place = namespaced && namespace !== undefined ? `/namespaces/${segment(namespace)}` : ''
  return `${root}${place}/${segment(plural)}`
}

/**
 * Returns the path of an object, or of a subresource such as `status`.
 *
 * @throws Error if the kind is namespaced and the key has no namespace
 */
export function objectPath(resource: ApiResource, key: ObjectKey, subresource?: string): string {
  const part = subresource === undefined ? '' : `/${segment(subresource)}`
  return `${creationPath(resource, key)}/${segment(key.name)}${part}`
}

function creationPath(resource: ApiResource, { namespace, name }: ObjectKey): string {
  if (resource.namespaced && (namespace ?? '') === '') {
    throw new Error(`${resource.plural} "${name}": missing namespace`)
  }
  return collectionPath(resource, namespace)
}

export function withQuery(path: string, query: Query): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, `${value}`)
  return search.size === 0 ? path : `${path}?${search}`
}

/** Encodes a segment of a path. Throws for a segment that would lead to another path. */
function segment(text: string): string {
  if (text === '' || text === '.' || text === '..') {
    throw new Error(`"${text}" cannot be a part of the address of an object`)
  }
  return encodeURIComponent(text)
}
