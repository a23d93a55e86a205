import type { Clock } from '@tollway/chassis/clock.ts'

type Entries = Readonly<Record<string, string>> | undefined

type ReadSecret = (namespace: string, name: string, signal: AbortSignal) => Promise<Entries>

const freshMs = 30_000

/**
 * Shares a read among all resources that name the same Secret within `freshMs`. Failed reads, and reads of a
 * missing Secret, are not cached.
 */
export function createSharedReads(readSecret: ReadSecret, clock: Pick<Clock, 'monotonicMs'>) {
  const recent = new Map<string, { readonly atMs: number; readonly entries: Promise<Entries> }>()

  function expire(nowMs: number): void {
    // The entries are in the order of their reads, the oldest first.
    for (const [id, { atMs }] of recent) {
      if (nowMs - atMs < freshMs) return
      recent.delete(id)
    }
  }

  return {
    /** Resolves with the entries of a Secret, at most `freshMs` old; undefined if the Secret does not exist. */
    async read(namespace: string, name: string, signal: AbortSignal): Promise<Entries> {
      const nowMs = clock.monotonicMs()
      expire(nowMs)
      const id = `${namespace}/${name}`
      const known = recent.get(id)
      if (known !== undefined) return known.entries
      const made = { atMs: nowMs, entries: readSecret(namespace, name, signal) }
      recent.set(id, made)
      const forget = () => {
        if (recent.get(id) === made) recent.delete(id)
      }
      made.entries.then(entries => entries ?? forget(), forget)
      return made.entries
    },
    refresh(namespace: string): void {
      for (const id of recent.keys()) if (id.startsWith(`${namespace}/`)) recent.delete(id)
    },
  }
}
