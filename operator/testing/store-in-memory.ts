import type { SecretData, SecretStore, StoredSecret } from '../certificates/secret-content.ts'

/** A store that behaves as the API server does. A test can read it, and make it fail. */
export interface StoreInMemory extends SecretStore {
  /** Returns the content of a Secret; empty if it does not exist. */
  data(name: string): SecretData
  set(name: string, data: Readonly<Record<string, string | undefined>>): void
  delete(name: string): void
  /** Makes every later call fail with this text. An empty text ends that. */
  fail(text: string): void
  /** Calls `chance` at each write. If it returns true, the write takes effect, but is reported as failed. */
  failAfterWrites(chance: () => boolean): void
}

export function storeInMemory(): StoreInMemory {
  const secrets = new Map<string, StoredSecret>()
  let version = 0
  let failure = ''
  let isLost = () => false

  function set(name: string, data: Readonly<Record<string, string | undefined>>): StoredSecret {
    version += 1
    const entries = Object.entries(data).map(([entry, text]) => [entry, text ?? ''])
    const stored = { data: Object.fromEntries(entries), version: String(version) }
    secrets.set(name, stored)
    return stored
  }

  async function answer(): Promise<void> {
    await new Promise(setImmediate)
    if (failure !== '') throw new Error(failure)
  }

  return {
    async get(name) {
      await answer()
      return secrets.get(name)
    },
    async put(name, data, known) {
      await answer()
      const found = secrets.get(name)
      if (found?.version !== known?.version) throw Object.assign(new Error('conflict'), { code: 409 })
      const stored = set(name, { ...found?.data, ...data })
      if (isLost()) throw new Error('the answer is lost')
      return stored
    },
    data: name => secrets.get(name)?.data ?? {},
    set: (name, data) => void set(name, data),
    delete: name => void secrets.delete(name),
    fail(text) {
      failure = text
    },
    failAfterWrites(chance) {
      isLost = chance
    },
  }
}
