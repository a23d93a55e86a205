import type { Claims, Refusal } from '../kinds/claims.ts'
import type { FedKind, Named } from '../kinds/fed-kind.ts'
import type { SourcedResource } from '../sources/source.ts'
import type { Translation } from '../translate/translation.ts'
import type { Memory } from './remembered.ts'

/** A resource, what it says, and what is remembered of it. */
export interface Gathered<Content> {
  /** `nameOf` the resource. */
  readonly name: string
  readonly resource: SourcedResource
  readonly memory: Memory<Content>
  readonly translation: Translation<Content>
}

export interface Chosen<Content> extends Gathered<Content> {
  /** Why its present content, or else its last good one, may not be in force. */
  readonly refusal: Refusal | undefined
  /** What shall be in force of it: its present content, the last good one, or nothing. */
  readonly content: Content | undefined
}

/** `namespace/name`: a resource's name in messages and in the feed. */
export function nameOf({ namespace, name }: Pick<SourcedResource, 'namespace' | 'name'>): string {
  return `${namespace}/${name}`
}

export function translateResource<Content extends Named>(
  kind: Pick<FedKind<Content>, 'translate'>,
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
 * What shall be in force of each resource, looked at together, for what one of them has another may not have: the
 * older one has it, and of two equally old ones that with the smaller uid.
 */
export function chooseContents<Content extends Named>(
  gathered: readonly Gathered<Content>[],
  claims: Claims<Content>,
): readonly Chosen<Content>[] {
  const chosen = new Map<string, Chosen<Content>>()
  for (const item of gathered.toSorted(byAge)) chosen.set(item.resource.uid, choose(item, claims))
  return gathered.flatMap(({ resource }) => chosen.get(resource.uid) ?? [])
}

function byAge(a: Gathered<unknown>, b: Gathered<unknown>): number {
  return a.memory.firstSeenMs - b.memory.firstSeenMs || (a.resource.uid < b.resource.uid ? -1 : 1)
}

/** The present content if it is right and may be in force, else the last one that was. */
function choose<Content extends Named>(item: Gathered<Content>, claims: Claims<Content>): Chosen<Content> {
  const { name, translation, memory, resource } = item
  const claimant = { name, namespace: resource.namespace }
  let first: Refusal | undefined
  const granted = (content: Content | undefined): Content | undefined => {
    if (content === undefined) return undefined
    const refusal = claims.refusalOf(content, claimant)
    first ??= refusal
    if (refusal !== undefined) return undefined
    claims.grant(content, claimant)
    return content
  }
  const present = 'value' in translation ? translation.value : undefined
  // The last good content is read only where it is needed, because reading it may mean decoding it.
  const content = granted(present) ?? granted(memory.lastGood)
  return { name, resource, memory, translation, refusal: first, content }
}
