/** etcd takes 1.5 MiB with one request. The rest is for the status and for what the API server adds. */
export const maxStoredBytes = 1_500_000

/**
 * How many bytes an API server stores of a resource with this spec: the spec as JSON, and the name of each
 * field once more in `managedFields`, for one manager of all fields.
 */
export function storedBytesOf(spec: unknown): number {
  return bytesOf(spec) + managedBytesOf(spec)
}

const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value) ?? '')

/** `"f:name":{},` for each field, and what `managedElementBytesOf` says for each element of a list. */
function managedBytesOf(value: unknown): number {
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + managedElementBytesOf(item), 0)
  if (value === null || typeof value !== 'object') return 0
  return Object.entries(value).reduce(
    (sum, [name, field]) => sum + bytesOf(`f:${name}`) + ':{},'.length + managedBytesOf(field),
    0,
  )
}

/** `"k:{…}":{".":{},…},` for a descriptor, because lists of descriptors are merged by key and value. */
function managedElementBytesOf(item: unknown): number {
  const { key, value } = (item ?? {}) as { readonly key?: unknown; readonly value?: unknown }
  if (key === undefined) return 0
  const element = bytesOf(`k:${JSON.stringify({ key, value: value ?? '' })}`) + ':{".":{}},'.length
  // The API server fills in a value that is left out.
  const filledIn = value === undefined ? '"value":"","f:value":{},'.length : 0
  return element + filledIn + managedBytesOf(item)
}
