import type { ResourceKind } from '@tollway/crds/resource-kind.ts'
import type { StreamLoads } from '../pods/stream-loads.ts'
import type { Resource } from '../xds/snapshot.ts'
import type { RouteSecrets } from './animation-stream-route/route-secrets.ts'
import type { Claims } from './claims.ts'
import type { DomainGrants } from './rate-limit-config/rate-limit-config.ts'

/** The content of a custom resource, or all its problems. */
export type Translation<Content> =
  | { readonly value: Content; readonly warnings: readonly ResourceProblem[] }
  | { readonly problems: readonly ResourceProblem[] }

/** A problem or a warning of a resource: the field, what was found and what is allowed. */
export interface ResourceProblem {
  /** The field: `spec.descriptors[2].rateLimit.unit`. Empty for the whole resource. */
  readonly path: string
  readonly message: string
}

/** Returns a problem in one line, without the location of the resource. */
export function formatProblem({ path, message }: ResourceProblem): string {
  return path === '' ? message : `${path}: ${message}`
}

/** A content with the `namespace/name` of its resource, before and after its completion. */
export interface Named {
  readonly name: string
}

/**
 * The specifics of one kind of custom resource whose contents the feed carries. The common code of all kinds
 * (contents in force, feed, acknowledgements, statuses) uses a kind only by this interface.
 *
 * `Content` is the translated content of a resource, which is remembered; `Published` is the published
 * content, completed with content from elsewhere.
 */
export interface KindAdapter<Content extends Named = Named, Published = unknown> extends KindColumns {
  readonly definition: ResourceKind
  /** The workload whose processes enforce the contents. */
  readonly workload: string
  /** The type of its resources in the feed. */
  readonly typeUrl: string
  /** Translates a resource. Pure. `name` is `namespace/name`. */
  translate(name: string, resource: unknown): Translation<Content>
  /** Returns whether a stored value, written by this version or another one, is a valid content. */
  isContent(value: unknown): value is Content
  /** Returns the subject of a resource, from its content, or else from a spec that may be invalid. */
  readSubject(content: Content | undefined, spec: unknown): string
  openClaims(): Claims<Content>
  /** Returns advisories about valid contents that are probably not intended, by the names of the contents. */
  findAdvisories?(contents: readonly Content[]): ReadonlyMap<string, Advisory>
  /**
   * Reads the values that these contents, and no others, need from elsewhere. Resolves after a time limit in
   * any case.
   */
  prepare?(contents: readonly Content[]): Promise<void>
  /** The parts on which `complete` and `countsOf` also depend. Each change of one triggers a reconcile. */
  readonly dependencies?: readonly { onChange(listener: () => void): void }[]
  /**
   * Adds the values from elsewhere, as they are known now. Returns the same object until something changes.
   *
   * @param createdMs the creation time of the resource, in milliseconds since the epoch
   */
  complete(content: Content, createdMs: number): CompletedContent<Published>
  encode(fed: Published): Resource
  /** Returns the message of an encoded resource as JSON for people. */
  show(bytes: Uint8Array): unknown
  /** Returns the counts that `counts` names; those of nothing in force when the content is undefined. */
  count(content: Content | undefined, uids: readonly string[]): Readonly<Record<string, number>>
}

/** The columns of the statuses of one kind. */
export interface KindColumns {
  /** The heading of the column with the subject: `DOMAIN`. */
  readonly subject: string
  /** The counts, in the order of the columns. */
  readonly counts: readonly Count[]
  /** The shown details, in the order of the columns; none when left out. */
  readonly details?: readonly Column[]
  /** The conditions that lead to Ready; those of the kinds of the feed when left out. */
  readonly steps?: readonly Column[]
}

interface Column {
  /** The name of a detail, or the type of a condition: `Synced`. */
  readonly field: string
  /** `SYNCED`. */
  readonly heading: string
}

export interface CompletedContent<Published> {
  readonly published: Published
  /** An unmet dependency: the resource is in force, but not as its author intends. */
  readonly unmet?: UnmetDependency | undefined
}

export interface UnmetDependency {
  /** The reason of a condition, for programs: `SecretMissing`. */
  readonly reason: string
  readonly message: string
}

/**
 * Something about a valid resource that is probably not intended. The resource has a condition, and is ready.
 */
export interface Advisory {
  /** The reason of a condition, for programs: `OpenOverlap`. */
  readonly reason: string
  readonly message: string
}

interface Count {
  /** The field in the status: `activeStreams`. */
  readonly field: string
  /** `STREAMS`. */
  readonly heading: string
  /** The count changes all the time, so its writes may be delayed. */
  readonly isLoad: boolean
}

/** The parts of an operator that kinds use beside their resources. */
export interface KindContext {
  /** The namespaces that may use a domain, by its name. */
  readonly domainGrants?: DomainGrants | undefined
  /** The tokens and keys that routes name. */
  readonly routeSecrets: RouteSecrets
  readonly loads: Pick<StreamLoads, 'sum' | 'onChange'>
}

/** The entry in the registry of a kind whose contents the feed carries. */
export interface FeedKind<Content extends Named, Published>
  extends Pick<KindAdapter<Content, Published>, 'definition' | 'isContent'> {
  /** The columns in tables of resources. */
  readonly columns: KindColumns
  open(context: KindContext): KindAdapter<Content, Published>
}
