import type { ApiResource, ObjectKey } from './kube-object.ts'

/** The query of an address. Undefined values are omitted. */
export type Query = Readonly<Record<string, string | number | boolean | undefined>>

/** Returns the address of all objects of a kind, in one namespace or (without it) in all. */
export function collectionPath(resource: ApiResource, namespace: string | undefined): string {
  const { group, version, plural, namespaced } = resource
  const root = group === '' ? `/api/${segment(version)}` : `/apis/${segment(group)}/${segment(version)}`
  const place = namespaced && namespace !== undefined ? `/namespaces/${segment(namespace)}` : ''
  return `${root}${place}/${segment(plural)}`
}

/**
 * Returns the address of one object, or of a part of it (`status`).
 *
 * @throws Error when the kind is namespaced and the key has no namespace
 */
export function objectPath(resource: ApiResource, key: ObjectKey, subresource?: string): string {
  const part = subresource === undefined ? '' : `/${segment(subresource)}`
  return `${placeOf(resource, key)}/${segment(key.name)}${part}`
}

/** Returns the address under which an object with this key is created. */
export function placeOf(resource: ApiResource, { namespace, name }: ObjectKey): string {
  if (resource.namespaced && (namespace ?? '') === '') {
    throw new Error(`${resource.plural} "${name}": a namespace is needed, and none is given`)
  }
  return collectionPath(resource, namespace)
}

export function withQuery(path: string, query: Query): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, `${value}`)
  return search.size === 0 ? path : `${path}?${search}`
}

/** Encodes one segment of an address. Rejects a segment that would lead to another address. */
function segment(text: string): string {
  if (text === '' || text === '.' || text === '..') {
    throw new Error(`"${text}" cannot be a part of the address of an object`)
  }
  return encodeURIComponent(text)
}
