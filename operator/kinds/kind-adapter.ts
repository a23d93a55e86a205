import type { ResourceKind } from '@tollway/crds/resource-kind.ts'
import type { Resource } from '../xds/snapshot.ts'
import type { Claims } from './claims.ts'
import type { Translation } from './translation.ts'

/** Contents, translated and published, have the `namespace/name` of their resource. */
export interface Named {
  readonly name: string
}

/**
 * The specifics of one kind of custom resource whose contents are fed to processes. The common code of all
 * kinds (contents in force, feed, acknowledgements, statuses) uses a kind only by this interface.
 *
 * `Content` is the translated content of a resource, which is remembered; `Fed` is the published content,
 * completed with content from elsewhere.
 */
export interface KindAdapter<Content extends Named = Named, Fed = unknown> extends KindColumns {
  readonly definition: ResourceKind
  /** Whose processes enforce it. */
  readonly workload: string
  /** Of its resources in the feed. */
  readonly typeUrl: string
  /** Pure. `name` is `namespace/name`. */
  translate(name: string, resource: unknown): Translation<Content>
  /** Whether a value that was written down, by this version or another one, is still such a content. */
  isContent(value: unknown): value is Content
  /** What a resource is about: of its content, or else of a spec that may say anything. */
  subjectOf(content: Content | undefined, spec: unknown): string
  openClaims(): Claims<Content>
  /** What of these contents, which are in force together, is allowed and hardly meant, by their names. */
  doubtsOf?(contents: readonly Content[]): ReadonlyMap<string, Doubt>
  /** Looks up what these contents, and no others, need from elsewhere, for a while at most. */
  prepare?(contents: readonly Content[]): Promise<void>
  /** What `complete` and `countsOf` also depend on. Each change of one is a reason to reconcile. */
  readonly dependencies?: readonly { onChange(listener: () => void): void }[]
  /**
   * Adds the content that comes from elsewhere, as it is known now. Returns the same object until something
   * changes.
   *
   * @param createdMs the creation time of the resource, in milliseconds since the epoch
   */
  complete(content: Content, createdMs: number): Completed<Fed>
  encode(fed: Fed): Resource
  /** The message of an encoded resource, as JSON for people. */
  show(bytes: Uint8Array): unknown
  /** The numbers named in `counts`; of nothing in force when the content is undefined. */
  countsOf(content: Content | undefined, uids: readonly string[]): Readonly<Record<string, number>>
}

/** What the statuses of a kind have that no other's have. */
export interface KindColumns {
  /** What a resource is about, as the heading of a column: `DOMAIN`. */
  readonly subject: string
  /** Its numbers, in the order in which people see them. */
  readonly counts: readonly Count[]
  /** What of its details is shown, in that order; none when left out. */
  readonly details?: readonly Column[]
  /** The conditions that lead to Ready; by default those of fed kinds. */
  readonly steps?: readonly Column[]
}

export interface Column {
  /** The name of a detail, or the type of a condition: `Synced`. */
  readonly field: string
  /** `SYNCED`. */
  readonly heading: string
}

export interface Completed<Fed> {
  readonly fed: Fed
  /** An unmet dependency: the resource is in force, but not as its author intends. */
  readonly lacking?: UnmetDependency | undefined
}

export interface UnmetDependency {
  /** For programs: `SecretMissing`. */
  readonly reason: string
  readonly message: string
}

/** Its condition is there only while the doubt is; the resource is ready all the same. */
export interface Doubt {
  /** For programs: `OpenOverlap`. */
  readonly reason: string
  readonly message: string
}

export interface Count {
  /** The field in the status: `activeStreams`. */
  readonly field: string
  /** `STREAMS`. */
  readonly heading: string
  /** The count changes all the time, so its writes may be delayed. */
  readonly isLoad: boolean
}
