import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isObject } from '@tollway/chassis/is-object.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { MemoryStore, ResourceMemory } from '../../kinds/choose-contents.ts'
import type { KindAdapter, Named } from '../../kinds/kind-adapter.ts'
import { writeAtomically } from './write-atomically.ts'

export function rememberedPath(stateDir: string): string {
  return join(stateDir, 'remembered.json')
}

export type RememberedFile = ReturnType<typeof openRememberedFile>

/** The part of a kind that decides which contents can be remembered. */
type RememberedKind<Content extends Named = Named> = Pick<KindAdapter<Content>, 'definition' | 'isContent'>

interface Entry extends ResourceMemory<Named> {
  readonly kind: string
}

/** The kind of entries without the field `kind`: they were written when this was the only kind. */
const firstKind = 'RateLimitConfig'

/**
 * Opens a JSON file with memories. `PATH.1` has the previous state, which is used if the file itself cannot
 * be read. If neither can be read, there are no memories. Entries of another form are ignored. All this is
 * reported by warnings and never prevents the start.
 */
export function openRememberedFile(path: string, kinds: readonly RememberedKind[], onWarning: Log['warn']) {
  const byKind = new Map(read([path, `${path}.1`], kinds, onWarning))
  let isWritten = true

  function replace(kind: string, fresh: ReadonlyMap<string, ResourceMemory<Named>>): void {
    if (isWritten && isSame(fresh, byKind.get(kind) ?? new Map())) return
    // Set before the write, so that a failed write, for example on a full disk, does not restore an older
    // version.
    byKind.set(kind, fresh)
    isWritten = false
    writeAtomically(path, `${JSON.stringify(toEntries(byKind))}\n`, `${path}.1`)
    isWritten = true
  }

  return {
    /** Returns the memories of one kind, which must be among those for which the file was opened. */
    of<Content extends Named>({ definition: { kind } }: RememberedKind<Content>) {
      return {
        // The kind's `isContent` accepted these entries when they were read, or its own reconciler made them.
        all: () => (byKind.get(kind) ?? new Map()) as ReadonlyMap<string, ResourceMemory<Content>>,
        replace: (fresh: ReadonlyMap<string, ResourceMemory<Content>>) => replace(kind, fresh),
      } satisfies MemoryStore<Content>
    },
  }
}

type ByKind = ReadonlyMap<string, ReadonlyMap<string, ResourceMemory<Named>>>

function toEntries(byKind: ByKind): Readonly<Record<string, Entry>> {
  const all = [...byKind].flatMap(([kind, memories]) =>
    Array.from(memories, ([uid, memory]): [string, Entry] => [uid, { kind, ...memory }]),
  )
  return Object.fromEntries(all)
}

/**
 * Returns whether all memories are equal. Contents are compared by identity, because an unchanged content is
 * the same object.
 */
function isSame(
  a: ReadonlyMap<string, ResourceMemory<unknown>>,
  b: ReadonlyMap<string, ResourceMemory<unknown>>,
): boolean {
  if (a.size !== b.size) return false
  for (const [uid, { firstSeenMs, origin, lastGood, lastGoodGeneration, ...rest }] of a) {
    const other = b.get(uid)
    if (other?.firstSeenMs !== firstSeenMs || other.origin !== origin) return false
    if (other.lastGood !== lastGood || other.lastGoodGeneration !== lastGoodGeneration) return false
    if (other.goneSinceMs !== rest.goneSinceMs || other.heirOf !== rest.heirOf) return false
  }
  return true
}

/** Returns the memories in the first file that can be read. */
function read(paths: readonly string[], kinds: readonly RememberedKind[], onWarning: Log['warn']): ByKind {
  const [path, ...others] = paths
  if (path === undefined) return new Map()
  let found: [string, unknown][]
  try {
    found = Object.entries(JSON.parse(readFileSync(path, 'utf8')) as object)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code !== 'ENOENT') onWarning('read last good versions failed', { path, error: message })
    return read(others, kinds, onWarning)
  }
  const byKind = new Map(
    kinds.map(({ definition }) => [definition.kind, new Map<string, ResourceMemory<Named>>()]),
  )
  for (const [uid, value] of found) {
    const entry = readEntry(value, kinds)
    if (entry !== undefined) byKind.get(entry.kind)?.set(uid, entry.memory)
    else onWarning('read last good version failed', { path, uid, error: 'not in the form of this version' })
  }
  return byKind
}

function readEntry(
  value: unknown,
  kinds: readonly RememberedKind[],
): { readonly kind: string; readonly memory: ResourceMemory<Named> } | undefined {
  if (!isObject<Entry>(value)) return undefined
  const { kind: name = firstKind, firstSeenMs, origin, lastGood, lastGoodGeneration } = value
  const { goneSinceMs, heirOf } = value
  const kind = kinds.find(({ definition }) => definition.kind === name)
  if (kind === undefined || typeof firstSeenMs !== 'number' || typeof origin !== 'string') return undefined
  const isGeneration = typeof lastGoodGeneration === 'number' && Number.isSafeInteger(lastGoodGeneration)
  if (!Number.isFinite(firstSeenMs) || (lastGoodGeneration !== undefined && !isGeneration)) return undefined
  if (lastGood !== undefined && !kind.isContent(lastGood)) return undefined
  const memory = {
    firstSeenMs,
    origin,
    ...(lastGood !== undefined && { lastGood }),
    ...(isGeneration && { lastGoodGeneration }),
    ...(typeof goneSinceMs === 'number' && Number.isFinite(goneSinceMs) && { goneSinceMs }),
    ...(typeof heirOf === 'string' && { heirOf }),
  }
  return { kind: kind.definition.kind, memory }
}
