import { isObject } from '@tollway/chassis/is-object.ts'
/** Names a kind in URLs of the API server. `group` is empty for the core group (`/api/v1`). */
export interface ApiResource {
  readonly group: string
  readonly version: string
  /** The name of the kind in URLs: `deployments`. */
  readonly plural: string
  readonly namespaced: boolean
}

/** Returns a namespaced kind of the core group. */
export function coreResource(plural: string): ApiResource {
  return { group: '', version: 'v1', plural, namespaced: true }
}

/** The metadata fields that this program reads. */
export interface ObjectMetadata {
  readonly name: string
  readonly namespace?: string
  readonly uid?: string
  readonly resourceVersion?: string
  readonly generation?: number
  /**
   * When the deletion was requested, in RFC 3339. The object may remain, for example until its finalizers are
   * removed.
   */
  readonly deletionTimestamp?: string
  readonly finalizers?: readonly string[]
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
  readonly [field: string]: unknown
}

/** An object of any kind. The objects of a list have no `apiVersion` and `kind`. */
export interface KubeObject {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: ObjectMetadata
  readonly [field: string]: unknown
}

/** Identifies an object within its kind. Namespaced kinds require `namespace`. */
export interface ObjectKey {
  readonly namespace?: string | undefined
  readonly name: string
}

/** One version of one object. A write with it fails with 409 if another object has the name. */
export interface ObjectVersion extends ObjectKey {
  readonly uid: string
  readonly resourceVersion?: string | undefined
}

/** Returns whether an untrusted value has the form of an object. */
export function isKubeObject(value: unknown): value is KubeObject {
  if (!isObject(value) || !isObject(value['metadata'])) return false
  return typeof value['metadata']['name'] === 'string' && value['metadata']['name'] !== ''
}
