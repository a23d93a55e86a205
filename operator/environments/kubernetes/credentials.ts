import { isObject } from '@tollway/chassis/is-object.ts'
import { apiGroup, apiVersion } from '@tollway/crds/resource-kind.ts'
import type {
  CredentialReference,
  CredentialStore,
  NewCredentials,
  NoteName,
  StoredCredentials,
} from '../../kinds/merchant/credential-store.ts'
import type { KubeClient } from './api/client.ts'
import type { KubeObject } from './api/kube-object.ts'
import { decodeEntries, encodeEntries, secretResource } from './api/secrets.ts'

const managedBy = 'app.kubernetes.io/managed-by'
const ownLabels = { [managedBy]: 'tollway', 'app.kubernetes.io/component': 'merchant-credentials' } as const

/** The prefix of the annotations that hold the notes: `tollway.dev/key-since`. */
const notePrefix = `${apiGroup}/`

/**
 * Stores the credentials of merchants in Secrets of an API server. Each Secret is in the namespace of its
 * Merchant, which owns it, so both are deleted together. Requires the verbs get, create and update.
 */
export function createCredentialSecrets(
  client: Pick<KubeClient, 'get' | 'create' | 'replace'>,
): CredentialStore {
  /** The Secrets as they were read, so that a write keeps what other writers have added. */
  const objects = new WeakMap<StoredCredentials, KubeObject>()

  function remember(object: KubeObject, reference: CredentialReference): StoredCredentials {
    const kept: StoredCredentials = {
      entries: decodeEntries(object['data']),
      notes: readNotes(object.metadata.annotations ?? {}),
      isOurs: belongsTo(object, reference),
      version: `${object.metadata.uid}/${object.metadata.resourceVersion}`,
    }
    objects.set(kept, object)
    return kept
  }

  return {
    async get(reference, signal) {
      const found = await client.get(secretResource, reference, { signal })
      return found && remember(found, reference)
    },
    async put(reference, content, known, signal) {
      const before = known && objects.get(known)
      if (before === undefined) {
        return remember(
          await client.create(secretResource, newSecret(reference, content), { signal }),
          reference,
        )
      }
      return remember(await client.replace(secretResource, changed(before, content), { signal }), reference)
    },
  }
}

/**
 * Returns whether the operator created the Secret for this resource, and not for an earlier one of the same
 * name.
 */
function belongsTo({ metadata }: KubeObject, { owner }: CredentialReference): boolean {
  const owners = Array.isArray(metadata['ownerReferences']) ? metadata['ownerReferences'] : []
  const isOwned = owners.some((one: unknown) => isObject(one) && one['uid'] === owner.uid)
  return isOwned && metadata.labels?.[managedBy] === ownLabels[managedBy]
}

function newSecret(
  { namespace, name, owner }: CredentialReference,
  { entries, notes }: NewCredentials,
): KubeObject {
  const controller = { controller: true, blockOwnerDeletion: false }
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      namespace,
      name,
      labels: ownLabels,
      annotations: writeNotes(notes),
      ownerReferences: [{ apiVersion, kind: 'Merchant', ...owner, ...controller }],
    },
    type: 'Opaque',
    data: encodeEntries(entries),
  }
}

function changed(object: KubeObject, { entries, notes, remove }: NewCredentials): KubeObject {
  const data = isObject(object['data']) ? object['data'] : {}
  const { annotations = {} } = object.metadata
  const kept = Object.entries(data).filter(([name]) => !remove.includes(name))
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    ...object,
    metadata: { ...object.metadata, annotations: { ...annotations, ...writeNotes(notes) } },
    data: { ...Object.fromEntries(kept), ...encodeEntries(entries) },
  }
}

function readNotes(annotations: Readonly<Record<string, string>>): StoredCredentials['notes'] {
  const own = Object.entries(annotations).filter(([name]) => name.startsWith(notePrefix))
  return Object.fromEntries(own.map(([name, text]) => [name.slice(notePrefix.length) as NoteName, text]))
}

function writeNotes(notes: NewCredentials['notes']): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(notes).map(([name, text]) => [`${notePrefix}${name}`, text]))
}
