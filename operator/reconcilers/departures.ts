import type { Claims } from '../kinds/claims.ts'
import type { Named } from '../kinds/kind-adapter.ts'
import type { Gathered } from './choose-contents.ts'
import type { Memories, Memory } from './remembered.ts'

/**
 * The time for which the claim of a deleted resource is kept for its namespace. An owner that replaces a
 * resource deletes it first, and a resource of another tenant may wait for the claim.
 */
const claimGraceMs = 60_000

/** A resource that was deleted a short time ago. */
export interface Departed<Content> {
  readonly uid: string
  readonly memory: Memory<Content>
  /** What was in force of it. */
  readonly content: Content
  readonly endMs: number
}

/**
 * Returns the resources that were deleted in the last minute, of all that are remembered. A deletion without
 * an operator counts from the start of the next one.
 *
 * @param uids the resources that exist
 */
export function findDeparted<Content>(
  memories: Memories<Content>,
  uids: ReadonlySet<string>,
  nowMs: number,
): readonly Departed<Content>[] {
  const departed: Departed<Content>[] = []
  for (const [uid, found] of memories.entries()) {
    if (uids.has(uid)) continue
    const { goneSinceMs = nowMs, lastGood: content } = found
    // A clock that was set back must not prolong the time.
    const endMs = Math.min(goneSinceMs, nowMs) + claimGraceMs
    if (content === undefined || endMs <= nowMs) continue
    const memory = found.goneSinceMs === undefined ? { ...found, goneSinceMs } : found
    departed.push({ uid, memory, content, endMs })
  }
  return departed
}

/**
 * Returns the resources with those as heirs that have the name and the claim of a deleted one. An heir has
 * the claim before older resources, for as long as it keeps it.
 */
export function markHeirs<Content extends Named>(
  gathered: readonly Gathered<Content>[],
  departed: readonly Departed<Content>[],
  { keyOf }: Pick<Claims<Content>, 'keyOf'>,
): readonly Gathered<Content>[] {
  if (departed.length === 0) return gathered
  const claimOf = new Map(departed.map(({ content }) => [content.name, keyOf(content)]))
  return gathered.map(item => {
    const { name, memory, translation } = item
    const heirOf = 'value' in translation ? claimOf.get(name) : undefined
    const isHeir = 'value' in translation && heirOf === keyOf(translation.value)
    return !isHeir || memory.heirOf === heirOf ? item : { ...item, memory: { ...memory, heirOf } }
  })
}
