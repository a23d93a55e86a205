import type { Slices } from '@tollway/chassis/slices.ts'
import type { Resource } from '../xds/snapshot.ts'
import type { ClaimDenial, Claims } from './claims.ts'
import type { KindAdapter, Named, Translation, UnmetDependency } from './kind-adapter.ts'
import type { SourcedResource } from './source.ts'
import { qualifiedName } from './source.ts'

/**
 * The memory of each resource of one kind over a restart: when it was first seen, which decides exclusive
 * claims, and its last good content, which stays in force while the present one is invalid or cannot be read.
 */
export interface MemoryStore<Content> {
  /** Returns the memories, by the uid of the resource. */
  all(): ResourceMemories<Content>
  /** Stores the memory of every resource of the kind, and forgets all others. Writes only changes. */
  replace(memories: ReadonlyMap<string, ResourceMemory<Content>>): void
}

/** The memory of each resource, by its uid. */
export type ResourceMemories<Content> = Pick<ReadonlyMap<string, ResourceMemory<Content>>, 'get' | 'entries'>

export interface ResourceMemory<Content> {
  readonly firstSeenMs: number
  /** The last known location: `shop/limits.yaml#2`. */
  readonly origin: string
  readonly lastGood?: Content | undefined
  /**
   * The generation of the resource with this content; left out in memories of versions without this field.
   */
  readonly lastGoodGeneration?: number | undefined
  /** When the resource was deleted; its last good content is then the claim that is kept for a time. */
  readonly goneSinceMs?: number | undefined
  /** The claim of a deleted resource of the same name, which this one has taken over: see `Claims.keyOf`. */
  readonly heirOf?: string | undefined
}

/** A resource with its translation and its memory. */
export interface GatheredResource<Content> {
  /** The name of the resource, by `nameOf`. */
  readonly name: string
  readonly resource: SourcedResource
  readonly memory: ResourceMemory<Content>
  readonly translation: Translation<Content>
}

export interface ChosenResource<Content> extends GatheredResource<Content> {
  /** Why the claim of its present content, or else of its last good one, is denied. */
  readonly denial: ClaimDenial | undefined
  /** The content to publish: the present one, the last good one, or none. */
  readonly content: Content | undefined
}

/** A chosen resource with its content as the feed carries it, if it has content. */
export interface EncodedResource<Content> extends ChosenResource<Content> {
  readonly encoded: Resource | undefined
  readonly unmet: UnmetDependency | undefined
}

export function translateResource<Content extends Named>(
  kind: Pick<KindAdapter<Content>, 'translate'>,
  resource: SourcedResource,
): Translation<Content> {
  const { apiVersion, namespace, name, spec } = resource
  return kind.translate(qualifiedName(resource), {
    apiVersion,
    kind: resource.kind,
    metadata: { name, namespace },
    spec,
  })
}

/**
 * Chooses the content of each resource that shall be in force. A claim, such as a domain, belongs to the
 * oldest resource. API servers know the age in whole seconds only: of equally old resources the claim belongs
 * to the one that has it in force, and then to the one with the smallest uid. The claim of a deleted resource
 * is kept for its namespace for a time, and a new resource of its name has it before older ones.
 */
export async function chooseContents<Content extends Named>(
  gathered: readonly GatheredResource<Content>[],
  claims: Claims<Content>,
  slices: Slices,
  departed: readonly DeletedResource<Content>[] = [],
): Promise<readonly ChosenResource<Content>[]> {
  for (const { content, endMs } of departed) {
    const { name } = content
    const [namespace = ''] = name.split('/')
    claims.reserve(content, { name, namespace }, new Date(endMs).toISOString())
  }
  const chosen = new Map<string, ChosenResource<Content>>()
  const byRight = (a: GatheredResource<Content>, b: GatheredResource<Content>): number =>
    Number(isSuccessor(b, claims)) - Number(isSuccessor(a, claims)) ||
    a.memory.firstSeenMs - b.memory.firstSeenMs ||
    Number(hasInForce(b, claims)) - Number(hasInForce(a, claims)) ||
    (a.resource.uid < b.resource.uid ? -1 : 1)
  for (const item of gathered.toSorted(byRight)) {
    chosen.set(item.resource.uid, choose(item, claims))
    await slices.yieldIfDue()
  }
  return gathered.flatMap(({ resource }) => chosen.get(resource.uid) ?? [])
}

/**
 * Returns whether the claim of the resource's present content is in force. Reads the last good content, which
 * may have to be decoded, only after an edit that is not in force yet.
 */
function hasInForce<Content extends Named>(
  { memory, resource, translation }: GatheredResource<Content>,
  claims: Claims<Content>,
): boolean {
  if (memory.lastGoodGeneration === undefined) return false
  if (memory.lastGoodGeneration === resource.generation || !('value' in translation)) return true
  const { lastGood } = memory
  return lastGood !== undefined && claims.toKey(lastGood) === claims.toKey(translation.value)
}

/** Returns whether the resource has the claim of a deleted resource of its name. */
function isSuccessor<Content extends Named>(
  { memory, translation }: GatheredResource<Content>,
  claims: Claims<Content>,
): boolean {
  const { heirOf } = memory
  if (heirOf === undefined) return false
  const content = 'value' in translation ? translation.value : memory.lastGood
  return content !== undefined && claims.toKey(content) === heirOf
}

/** Chooses the present content if it is valid and its claim is granted, otherwise the last good one. */
function choose<Content extends Named>(
  item: GatheredResource<Content>,
  claims: Claims<Content>,
): ChosenResource<Content> {
  const { name, translation, memory, resource } = item
  const claimant = { name, namespace: resource.namespace }
  let first: ClaimDenial | undefined
  const granted = (content: Content | undefined): Content | undefined => {
    if (content === undefined) return undefined
    const found = claims.findDenial(content, claimant)
    // What is in force stays, whatever an operator remembers of a deleted resource.
    const denial = found?.isReserved && hasInForce(item, claims) ? undefined : found
    first ??= denial
    if (denial !== undefined) return undefined
    claims.grant(content, claimant)
    return content
  }
  const present = 'value' in translation ? translation.value : undefined
  // The last good content is read only where it is needed, because reading it may mean decoding it.
  const content = granted(present) ?? granted(memory.lastGood)
  return { name, resource, memory, translation, denial: first, content }
}

/**
 * The time for which the claim of a deleted resource is kept for its namespace. An owner that replaces a
 * resource deletes it first, and a resource of another tenant may wait for the claim.
 */
const claimGraceMs = 60_000

/** A resource that was deleted a short time ago. */
export interface DeletedResource<Content> {
  readonly uid: string
  readonly memory: ResourceMemory<Content>
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
export function findRecentlyDeleted<Content>(
  memories: ResourceMemories<Content>,
  uids: ReadonlySet<string>,
  nowMs: number,
): readonly DeletedResource<Content>[] {
  const departed: DeletedResource<Content>[] = []
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
export function markSuccessors<Content extends Named>(
  gathered: readonly GatheredResource<Content>[],
  departed: readonly DeletedResource<Content>[],
  { toKey }: Pick<Claims<Content>, 'toKey'>,
): readonly GatheredResource<Content>[] {
  if (departed.length === 0) return gathered
  const claimOf = new Map(departed.map(({ content }) => [content.name, toKey(content)]))
  return gathered.map(item => {
    const { name, memory, translation } = item
    const heirOf = 'value' in translation ? claimOf.get(name) : undefined
    const isHeir = 'value' in translation && heirOf === toKey(translation.value)
    return !isHeir || memory.heirOf === heirOf ? item : { ...item, memory: { ...memory, heirOf } }
  })
}
