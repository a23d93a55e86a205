import { isObject } from '@tollway/chassis/is-object.ts'
import { createReflector } from '../../../controller/reflector.ts'
import { createReflectorSource, type KubeClient } from './client.ts'
import type { ApiResource, KubeObject } from './kube-object.ts'

const secretResource: ApiResource = { group: '', version: 'v1', plural: 'secrets', namespaced: true }
const envelope = { apiVersion: 'v1', kind: 'Secret' }

/** The entries of a Secret as text. */
export interface SecretContent {
  readonly data: Readonly<Record<string, string>>
  /**
   * The object's uid and resourceVersion: an apply with the latter alone would create a deleted object again.
   */
  readonly version: string
  readonly uid: string
  /** Whether the Secret has every owner of the `SecretPlace`. */
  readonly isOwned: boolean
}

interface SecretScope {
  readonly namespace: string
  /** Labels and owners of the Secrets that are created or changed. */
  readonly metadata?: {
    readonly labels?: Readonly<Record<string, string>>
    readonly ownerReferences?: readonly { readonly uid: string }[]
  }
}

/**
 * Returns the Secrets of one namespace, by name. It needs the verbs get, create and patch. Entries of other
 * writers stay.
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
     * Creates the Secret, or changes exactly the known state. Rejects with `code` 409 if the state is another
     * one.
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
        data: encode(data),
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
  /** Called after each change of one of the Secrets, and when it is found first. It must not throw. */
  readonly onChange: () => void
  readonly onError: (secret: string, error: unknown) => void
  /** Uniform in [0, 1). */
  readonly random: () => number
}

/**
 * Watches each Secret by its name, so that the verbs list and watch are needed for these names only. Resolves
 * the returned function's promise when all watches have ended.
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
  const entries = Object.entries(isObject(data) ? data : {})
  return {
    version: `${metadata.uid}/${metadata.resourceVersion}`,
    uid: metadata.uid ?? '',
    isOwned: owners.every(({ uid }) => found.some(reference => reference?.uid === uid)),
    data: Object.fromEntries(entries.map(([entry, value]) => [entry, decode(value)])),
  }
}

function fromVersion(version: string) {
  const [uid = '', resourceVersion = ''] = version.split('/')
  return { uid, resourceVersion }
}

function encode(data: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const entries = Object.entries(data)
  return Object.fromEntries(entries.map(([entry, text]) => [entry, Buffer.from(text).toString('base64')]))
}

function decode(value: unknown): string {
  return typeof value === 'string' ? Buffer.from(value, 'base64').toString('utf8') : ''
}
