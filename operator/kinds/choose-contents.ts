import type { Slices } from '@tollway/chassis/slices.ts'
import type { Resource } from '../xds/snapshot.ts'
import type { ClaimDenial, Claims } from './claims.ts'
import type { KindAdapter, Named, Translation, UnmetDependency } from './kind-adapter.ts'
import type { SourcedResource } from './source.ts'
import { qualifiedName } from './source.ts'

/**
 * Remembers facts about each resource of one kind over a restart. The time at which it was first seen decides
 * who has an exclusive claim. Its last good content stays in force while the present one is invalid or cannot
 * be read.
 */
export interface MemoryStore<Content> {
  all(): ResourceMemories<Content>
  /** Stores these memories, by the uids of the resources, and forgets all others. Writes only changes. */
  replace(memories: ReadonlyMap<string, ResourceMemory<Content>>): void
}

/** The memory of each resource, by its uid. */
export type ResourceMemories<Content> = Pick<ReadonlyMap<string, ResourceMemory<Content>>, 'get' | 'entries'>

export interface ResourceMemory<Content> {
  readonly firstSeenMs: number
  /** Where the resource was last declared: `shop/limits.yaml#2`. */
  readonly origin: string
  readonly lastGood?: Content | undefined
  /**
   * The generation of the resource whose content is `lastGood`; left out in memories that are older than this
   * field.
   */
  readonly lastGoodGeneration?: number | undefined
  /**
   * When the resource was deleted. Its claim, which `lastGood` contains, is then kept for its namespace for a
   * time.
   */
  readonly goneSinceMs?: number | undefined
  /**
   * A claim, as `Claims.toKey` returns it, that this resource took over from a deleted resource of the same
   * name.
   */
  readonly heirOf?: string | undefined
}

export interface GatheredResource<Content> {
  /** The `qualifiedName` of the resource. */
  readonly name: string
  readonly resource: SourcedResource
  readonly memory: ResourceMemory<Content>
  readonly translation: Translation<Content>
}

export interface ChosenResource<Content> extends GatheredResource<Content> {
  /**
   * Why the claim of the present content is denied; if the present content is invalid, why the claim of the
   * last good one is denied.
   */
  readonly denial: ClaimDenial | undefined
  /** The content to publish: the present or the last good one; undefined for none. */
  readonly content: Content | undefined
}

/** A chosen resource and, if it has content, the encoded form for the feed. */
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
 * Chooses for each resource the content that shall be in force. An exclusive claim, such as a domain, belongs
 * to the oldest resource that names it. API servers know the age only in whole seconds. Of equally old
 * resources, the claim belongs to one that has it in force, then to the first by `namespace/name`. The claim
 * of a deleted resource is kept for its namespace for `claimGraceMs`. In this time a new resource of the same
 * name gets it before older resources.
 *
 * The result depends only on the resources, their memories and the time, so that operators with the same
 * memories choose alike.
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
    (a.name < b.name ? -1 : 1)
  for (const item of gathered.toSorted(byRight)) {
    chosen.set(item.resource.uid, choose(item, claims))
    await slices.yieldIfDue()
  }
  return gathered.flatMap(({ resource }) => chosen.get(resource.uid) ?? [])
}

/**
 * Returns whether the claim of the present content is already in force. Reads the last good content only if
 * the resource has changed since, because reading it may mean decoding it.
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

/** Returns whether the resource still has the claim that it took over from a deleted resource of its name. */
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
    // A reservation for a deleted resource never takes a claim from a resource that has it in force.
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
 * The time for which the claim of a deleted resource is kept for its namespace. An owner who replaces a
 * resource first deletes it, and meanwhile a resource of another tenant must not take the claim.
 */
const claimGraceMs = 60_000

export interface DeletedResource<Content> {
  readonly uid: string
  readonly memory: ResourceMemory<Content>
  readonly content: Content
  readonly endMs: number
}

/**
 * Returns the remembered resources that were deleted less than `claimGraceMs` ago. If no operator ran at the
 * deletion, the time counts from the start of the next operator.
 *
 * @param uids the uids of the resources that exist
 */
export function findRecentlyDeleted<Content>(
  memories: ResourceMemories<Content>,
  uids: ReadonlySet<string>,
  nowMs: number,
): readonly DeletedResource<Content>[] {
  const departed: DeletedResource<Content>[] = []
  for (const [uid, found] of memories.entries()) {
    if (uids.has(uid)) continue
    const { lastGood: content } = found
    // If the clock is set back, the time counts from then on.
    const goneSinceMs = Math.min(found.goneSinceMs ?? nowMs, nowMs)
    const endMs = goneSinceMs + claimGraceMs
    if (content === undefined || endMs <= nowMs) continue
    const memory = found.goneSinceMs === goneSinceMs ? found : { ...found, goneSinceMs }
    departed.push({ uid, memory, content, endMs })
  }
  return departed
}

/**
 * Marks each resource that has the name and the claim of a deleted one as its heir. An heir has the claim
 * before older resources, as long as its content needs the claim.
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
