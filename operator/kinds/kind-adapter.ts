import type { SharingStatus } from '@tollway/crds/rate-limit-config.ts'
import type { ResourceKind } from '@tollway/crds/resource-kind.ts'
import type { StreamLoads } from '../pods/stream-loads.ts'
import type { ResourceStatus } from '../status/resource-status.ts'
import type { Resource } from '../xds/snapshot.ts'
import type { RouteSecrets } from './animation-stream-route/route-secrets.ts'
import type { Claims } from './claims.ts'
import type { DomainGrants } from './rate-limit-config/rate-limit-config.ts'

/** The content of a custom resource with warnings, or all problems of an invalid one. */
export type Translation<Content> =
  | { readonly value: Content; readonly warnings: readonly ResourceProblem[] }
  | { readonly problems: readonly ResourceProblem[] }

/** A problem or warning of a resource. The message says what was found and what is allowed. */
export interface ResourceProblem {
  /** The field: `spec.descriptors[2].rateLimit.unit`. Empty for the resource as a whole. */
  readonly path: string
  readonly message: string
}

/** Returns the problem in one line, without the file of the resource. */
export function formatProblem({ path, message }: ResourceProblem): string {
  return path === '' ? message : `${path}: ${message}`
}

/** A content that carries the name of its resource. */
export interface Named {
  readonly name: string
}

/**
 * The code of one kind of custom resource whose contents the feed carries. The code that all kinds share
 * (choice of contents, feed, acknowledgements, statuses) uses a kind only through this interface.
 *
 * - `Content` is the content of a resource as `translate` returns it. It is stored over a restart.
 * - `Published` is the content that the feed carries: `complete` adds values from elsewhere, such as Secrets.
 */
export interface KindAdapter<Content extends Named = Named, Published = unknown> extends KindColumns {
  readonly definition: ResourceKind
  /** The workload whose processes enforce the contents. */
  readonly workload: string
  /** The type URL of the kind's resources in the feed. */
  readonly typeUrl: string
  /** Translates a resource of the name `namespace/name`. Depends on nothing but the arguments. */
  translate(name: string, resource: unknown): Translation<Content>
  /** Returns whether a stored value is valid for this version. Another version may have written it. */
  isContent(value: unknown): value is Content
  /**
   * Returns the `ResourceStatus.subject`; reads it from the spec, which may be invalid, if there is no
   * content.
   */
  readSubject(content: Content | undefined, spec: unknown): string
  openClaims(): Claims<Content>
  /** Returns advisories about valid contents, by the names of the contents; see `Advisory`. */
  findAdvisories?(contents: readonly Content[]): ReadonlyMap<string, Advisory>
  /**
   * Reads the values from elsewhere that these contents need, and stops reading all others. Resolves when
   * they have been read, or after a time limit.
   */
  prepare?(contents: readonly Content[]): Promise<void>
  /**
   * Parts whose changes also change the results of `complete`, `count` and `findSharing`. Each change triggers a reconcile.
   */
  readonly dependencies?: readonly { onChange(listener: () => void): void }[]
  /**
   * Adds the values from elsewhere, as they are known now. Returns the same object until one of them changes.
   *
   * @param createdMs the creation time of the resource, in milliseconds since the epoch
   */
  complete(content: Content, createdMs: number): CompletedContent<Published>
  encode(published: Published): Resource
  /** Decodes a resource of the feed for people, as JSON without secrets. */
  show(bytes: Uint8Array): unknown
  /**
   * Returns the values of `counts` for the content in force; undefined content means that nothing is in
   * force. `uids` are the uids of the kind's processes.
   */
  count(content: Content | undefined, uids: readonly string[]): Readonly<Record<string, number>>
  /** Returns how the limits of the content in force are shared; the same object until that changes. */
  findSharing?(content: Content): ResourceStatus['sharing']
}

/** The columns of one kind in tables of resources, such as `tollway status`. */
export interface KindColumns {
  /** The heading of the column with `ResourceStatus.subject`: `DOMAIN`. */
  readonly subject: string
  readonly counts: readonly Count[]
  /** The details that tables show, in the order of their columns; none when left out. */
  readonly details?: readonly Column[]
  /** The conditions that lead to Ready; Accepted, Programmed and Enforced when left out. */
  readonly steps?: readonly Column[]
}

interface Column {
  /** The name of a detail in the status, or the type of a condition: `Synced`. */
  readonly field: string
  /** The heading of the column: `SYNCED`. */
  readonly heading: string
}

export interface CompletedContent<Published> {
  readonly published: Published
  /** A missing dependency: the resource is in force, but not as its author intends. */
  readonly unmet?: UnmetDependency | undefined
}

export interface UnmetDependency {
  /** The `reason` of the resulting condition: `SecretMissing`. */
  readonly reason: string
  readonly message: string
}

/**
 * A hint that a valid resource is probably not as intended. The status shows it, and the resource can be
 * Ready.
 */
export interface Advisory {
  /** The `reason` of the resulting condition: `OpenOverlap`. */
  readonly reason: string
  readonly message: string
}

interface Count {
  /** The field of the status: `activeStreams`. */
  readonly field: string
  /** The heading of the column: `STREAMS`. */
  readonly heading: string
  /** Whether the count changes all the time, so that writes of statuses for its sake may be delayed. */
  readonly isLoad: boolean
}

/** The parts of an operator that kinds use beside the resources. */
export interface KindContext {
  /** See `DomainGrants`; every namespace may use every domain when left out. */
  readonly domainGrants?: DomainGrants | undefined
  readonly routeSecrets: RouteSecrets
  /** The numbers of streams and consumers that processes report for each route. */
  readonly loads: Pick<StreamLoads, 'sum' | 'onChange'>
  /** How processes and proxies share the limits of domains. */
  readonly sharing?: {
    of(domain: string): SharingStatus | 'unknown'
    onChange(listener: () => void): void
  }
}

/** The registry's entry for a kind whose contents the feed carries. */
export interface FeedKind<Content extends Named, Published>
  extends Pick<KindAdapter<Content, Published>, 'definition' | 'isContent'> {
  readonly columns: KindColumns
  open(context: KindContext): KindAdapter<Content, Published>
}
