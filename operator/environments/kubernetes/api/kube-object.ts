import { isObject } from '@tollway/chassis/is-object.ts'
/** The names of a kind in addresses of the API server. `group` is empty for the core group (`/api/v1`). */
export interface ApiResource {
  readonly group: string
  readonly version: string
  /** `deployments`. */
  readonly plural: string
  readonly namespaced: boolean
}

/** The fields of every object that this program reads. */
export interface ObjectMetadata {
  readonly name: string
  readonly namespace?: string
  readonly uid?: string
  readonly resourceVersion?: string
  readonly generation?: number
  /** Set when the deletion was requested and finalizers still hold the object. RFC 3339. */
  readonly deletionTimestamp?: string
  readonly finalizers?: readonly string[]
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
  readonly [field: string]: unknown
}

/** Any object of any kind. The objects of a list have no `apiVersion` and `kind`. */
export interface KubeObject {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: ObjectMetadata
  readonly [field: string]: unknown
}

/** Identifies an object of a kind. Namespaced kinds require `namespace`. */
export interface ObjectKey {
  readonly namespace?: string | undefined
  readonly name: string
}

/** One state of one object. A write that names it fails with 409 if the object is another one. */
export interface ObjectVersion extends ObjectKey {
  readonly uid: string
  readonly resourceVersion?: string | undefined
}

/** Returns whether an external value is an object. */
export function isKubeObject(value: unknown): value is KubeObject {
  if (!isObject(value) || !isObject(value['metadata'])) return false
  return typeof value['metadata']['name'] === 'string' && value['metadata']['name'] !== ''
}
