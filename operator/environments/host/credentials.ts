import { createHash } from 'node:crypto'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type {
  CredentialReference,
  CredentialStore,
  StoredCredentials,
} from '../../kinds/merchant/credential-store.ts'
import { isTexts } from './secrets.ts'
import { writeAtomically } from './write-atomically.ts'

/** The content of a file: a Secret in the form that `kubectl apply` accepts. */
interface SecretFile {
  readonly apiVersion: 'v1'
  readonly kind: 'Secret'
  readonly metadata: {
    readonly namespace: string
    readonly name: string
    /** The uid of the Merchant that owns the Secret. */
    readonly owner: string
    readonly notes: Readonly<Record<string, string>>
  }
  readonly stringData: Readonly<Record<string, string>>
}

const folderName = 'secrets'

/** Returns the path of the file for a Secret. A namespace contains no dot, so no two Secrets share a file. */
export function credentialFile(
  stateDir: string,
  { namespace, name }: Pick<CredentialReference, 'namespace' | 'name'>,
): string {
  return join(stateDir, folderName, `${namespace}.${name}.json`)
}

export interface CredentialFiles extends CredentialStore {
  /** Removes the file, if it belongs to the `owner` of the reference. */
  remove(reference: CredentialReference): void
}

/** Stores the credentials of merchants in files of the state folder, which only their owner can read. */
export function createCredentialFiles(stateDir: string): CredentialFiles {
  function read(reference: CredentialReference): StoredCredentials | undefined {
    const text = readIfExists(credentialFile(stateDir, reference))
    if (text === undefined) return undefined
    const version = hashText(text)
    const found = parse(text)
    if (found === undefined) return { entries: {}, notes: {}, isOurs: false, version }
    const { metadata, stringData: entries } = found
    return { entries, notes: metadata.notes, isOurs: metadata.owner === reference.owner.uid, version }
  }

  return {
    get: async reference => read(reference),
    async put(reference, { entries, notes, remove }, known) {
      const now = read(reference)
      if (now?.version !== known?.version) {
        throw Object.assign(new Error(`${credentialFile(stateDir, reference)} was changed`), { code: 409 })
      }
      const kept = Object.entries(now?.entries ?? {}).filter(([name]) => !remove.includes(name))
      const { namespace, name, owner } = reference
      const file: SecretFile = {
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { namespace, name, owner: owner.uid, notes: { ...now?.notes, ...notes } },
        stringData: { ...Object.fromEntries(kept), ...entries },
      }
      const text = `${JSON.stringify(file, null, 2)}\n`
      writeAtomically(credentialFile(stateDir, reference), text)
      const { metadata, stringData } = file
      return { entries: stringData, notes: metadata.notes, isOurs: true, version: hashText(text) }
    },
    remove(reference) {
      if (read(reference)?.isOurs) rmSync(credentialFile(stateDir, reference), { force: true })
    },
  }
}

function hashText(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function readIfExists(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Returns undefined for a file that the operator did not write. Such a file is never changed. */
function parse(text: string): SecretFile | undefined {
  try {
    const found = JSON.parse(text) as SecretFile
    return found.kind === 'Secret' && isTexts(found.metadata.notes) && isTexts(found.stringData)
      ? found
      : undefined
  } catch {
    return undefined
  }
}
