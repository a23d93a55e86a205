import { isObject } from '@tollway/chassis/is-object.ts'
import { createReflector } from '../../../controller/reflector.ts'
import { createReflectorSource, type KubeClient } from './client.ts'
import { coreResource, type KubeObject } from './kube-object.ts'

export const secretResource = coreResource('secrets')
const envelope = { apiVersion: 'v1', kind: 'Secret' }

export interface SecretContent {
  readonly data: Readonly<Record<string, string>>
  /**
   * The uid and the resourceVersion. With the resourceVersion alone, an apply would create a deleted Secret
   * again.
   */
  readonly version: string
  readonly uid: string
  /** Whether the Secret has every owner of the `SecretScope`. */
  readonly isOwned: boolean
}

interface SecretScope {
  readonly namespace: string
  /** The labels and owners that a write gives to a Secret. */
  readonly metadata?: {
    readonly labels?: Readonly<Record<string, string>>
    readonly ownerReferences?: readonly { readonly uid: string }[]
  }
}

/**
 * Gives access to the Secrets of one namespace by name. Requires the verbs get, create and patch. A write
 * keeps the entries of other writers.
 */
export function secretAccess(
  client: Pick<KubeClient, 'get' | 'create' | 'apply'>,
  { namespace, metadata = {} }: SecretScope,
) {
  const owners = metadata.ownerReferences ?? []
  return {
    /** Resolves with undefined if the Secret does not exist. */
    async get(name: string, signal: AbortSignal): Promise<SecretContent | undefined> {
      const found = await client.get(secretResource, { namespace, name }, { signal })
      return found && toContent(found, owners)
    },
    /**
     * Creates the Secret if `known` is undefined; otherwise changes it only if it is still at
     * `known.version`. Rejects with `code` 409 if it has another version.
     */
    async put(
      name: string,
      data: Readonly<Record<string, string>>,
      known: SecretContent | undefined,
      signal: AbortSignal,
    ): Promise<SecretContent> {
      const object = {
        ...envelope,
        metadata: { ...metadata, namespace, name, ...(known && fromVersion(known.version)) },
        data: encodeEntries(data),
      }
      if (known === undefined) {
        return toContent(await client.create(secretResource, object, { signal }), owners)
      }
      return toContent(await client.apply(secretResource, object, { force: true, signal }), owners)
    },
  }
}

interface SecretWatchOptions {
  readonly client: Pick<KubeClient, 'list' | 'watch'>
  readonly namespace: string
  readonly names: readonly string[]
  /** Called after each change of one of the Secrets, and when it is first found. It must not throw. */
  readonly onChange: () => void
  readonly onError: (secret: string, error: unknown) => void
  readonly random: () => number
}

/**
 * Watches each Secret by its name, so that list and watch are required for these names only. Returns a
 * function that ends all watches and resolves when they have ended.
 */
export function watchSecrets(options: SecretWatchOptions): () => Promise<void> {
  const { client, namespace, names, onChange, onError, random } = options
  const reflectors = [...new Set(names)].map(name => {
    const reflector = createReflector<KubeObject>({
      source: createReflectorSource(client, secretResource, { fieldSelector: `metadata.name=${name}` }),
      namespaces: [namespace],
      keep: ({ metadata }) => ({ metadata }),
      onError: error => onError(name, error),
      random,
    })
    reflector.onChange(onChange)
    return reflector
  })
  return async () => {
    await Promise.all(reflectors.map(reflector => reflector.stop()))
  }
}

function toContent({ metadata, data }: KubeObject, owners: readonly { uid: string }[]): SecretContent {
  const found = Array.isArray(metadata['ownerReferences']) ? metadata['ownerReferences'] : []
  return {
    version: `${metadata.uid}/${metadata.resourceVersion}`,
    uid: metadata.uid ?? '',
    isOwned: owners.every(({ uid }) => found.some(reference => reference?.uid === uid)),
    data: decodeEntries(data),
  }
}

function fromVersion(version: string) {
  const [uid = '', resourceVersion = ''] = version.split('/')
  return { uid, resourceVersion }
}

/** Returns entries in the form of `data`: base64. */
export function encodeEntries(entries: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const encoded = Object.entries(entries).map(([name, text]) => [name, Buffer.from(text).toString('base64')])
  return Object.fromEntries(encoded)
}

/** Returns the entries of a `data` field as text. */
export function decodeEntries(data: unknown): Readonly<Record<string, string>> {
  const decoded = Object.entries(isObject(data) ? data : {}).map(([name, value]) => [
    name,
    typeof value === 'string' ? Buffer.from(value, 'base64').toString('utf8') : '',
  ])
  return Object.fromEntries(decoded)
}
