import type { Slices } from '@tollway/chassis/slices.ts'
import type { ClaimDenial, Claims } from '../kinds/claims.ts'
import type { KindAdapter, Named, UnmetDependency } from '../kinds/kind-adapter.ts'
import type { Translation } from '../kinds/translation.ts'
import type { SourcedResource } from '../sources/source.ts'
import type { Resource } from '../xds/snapshot.ts'
import type { Memories, Memory } from './remembered.ts'

/** A resource with its translation and its memory. */
export interface Gathered<Content> {
  /** The name of the resource, by `nameOf`. */
  readonly name: string
  readonly resource: SourcedResource
  readonly memory: Memory<Content>
  readonly translation: Translation<Content>
}

export interface Chosen<Content> extends Gathered<Content> {
  /** Why the claim of its present content, or else of its last good one, is denied. */
  readonly denial: ClaimDenial | undefined
  /** The content to publish: the present one, the last good one, or none. */
  readonly content: Content | undefined
}

/** A chosen resource with its content as the feed carries it, if it has content. */
export interface Ready<Content> extends Chosen<Content> {
  readonly encoded: Resource | undefined
  readonly lacking: UnmetDependency | undefined
}

/** Returns `namespace/name`, the name of a resource in messages and in the feed. */
export function nameOf({ namespace, name }: Pick<SourcedResource, 'namespace' | 'name'>): string {
  return `${namespace}/${name}`
}

export function translateResource<Content extends Named>(
  kind: Pick<KindAdapter<Content>, 'translate'>,
  resource: SourcedResource,
): Translation<Content> {
  const { apiVersion, namespace, name, spec } = resource
  return kind.translate(nameOf(resource), {
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
  gathered: readonly Gathered<Content>[],
  claims: Claims<Content>,
  slices: Slices,
  departed: readonly Departed<Content>[] = [],
): Promise<readonly Chosen<Content>[]> {
  for (const { content, endMs } of departed) {
    const { name } = content
    const [namespace = ''] = name.split('/')
    claims.keep(content, { name, namespace }, new Date(endMs).toISOString())
  }
  const chosen = new Map<string, Chosen<Content>>()
  const byRight = (a: Gathered<Content>, b: Gathered<Content>): number =>
    Number(isHeir(b, claims)) - Number(isHeir(a, claims)) ||
    a.memory.firstSeenMs - b.memory.firstSeenMs ||
    Number(hasInForce(b, claims)) - Number(hasInForce(a, claims)) ||
    (a.resource.uid < b.resource.uid ? -1 : 1)
  for (const item of gathered.toSorted(byRight)) {
    chosen.set(item.resource.uid, choose(item, claims))
    await slices.rest()
  }
  return gathered.flatMap(({ resource }) => chosen.get(resource.uid) ?? [])
}

/**
 * Returns whether the claim of the resource's present content is in force. Reads the last good content, which
 * may have to be decoded, only after an edit that is not in force yet.
 */
function hasInForce<Content extends Named>(
  { memory, resource, translation }: Gathered<Content>,
  claims: Claims<Content>,
): boolean {
  if (memory.lastGoodGeneration === undefined) return false
  if (memory.lastGoodGeneration === resource.generation || !('value' in translation)) return true
  const { lastGood } = memory
  return lastGood !== undefined && claims.keyOf(lastGood) === claims.keyOf(translation.value)
}

/** Returns whether the resource has the claim of a deleted resource of its name. */
function isHeir<Content extends Named>(
  { memory, translation }: Gathered<Content>,
  claims: Claims<Content>,
): boolean {
  const { heirOf } = memory
  if (heirOf === undefined) return false
  const content = 'value' in translation ? translation.value : memory.lastGood
  return content !== undefined && claims.keyOf(content) === heirOf
}

/** Chooses the present content if it is valid and its claim is granted, otherwise the last good one. */
function choose<Content extends Named>(item: Gathered<Content>, claims: Claims<Content>): Chosen<Content> {
  const { name, translation, memory, resource } = item
  const claimant = { name, namespace: resource.namespace }
  let first: ClaimDenial | undefined
  const granted = (content: Content | undefined): Content | undefined => {
    if (content === undefined) return undefined
    const found = claims.denialOf(content, claimant)
    // What is in force stays, whatever an operator remembers of a deleted resource.
    const denial = found?.isKept && hasInForce(item, claims) ? undefined : found
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
