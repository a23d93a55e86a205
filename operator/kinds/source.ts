import { apiGroup } from '@tollway/crds/resource-kind.ts'
/**
 * A source of custom resources: a folder of files, or the API server. It validates only apiVersion, kind and
 * name.
 */
export interface Source {
  /** Starts to read. Resolves when `list` is first complete. */
  start(): Promise<void>
  /**
   * Returns all present resources, in no particular order. An unchanged resource is the same object as
   * before. A folder's list also contains Secrets (`v1`); an API server's does not.
   */
  list(): readonly SourcedResource[]
  problems(): readonly SourceProblem[]
  /**
   * Returns the problems that may hide resources, such as an unreadable file. While there is one, a resource
   * that is missing from `list` may be declared in that file.
   */
  unread(): readonly SourceProblem[]
  /** Calls the listener after each change of `list` or `problems`. */
  onChange(listener: () => void): void
  stop(): Promise<void>
}

export interface SourcedResource {
  readonly apiVersion: string
  readonly kind: string
  readonly namespace: string
  readonly name: string
  /**
   * Stays the same until the resource is deleted. The API server's uid; for files, the UUIDv5 of
   * kind/namespace/name.
   */
  readonly uid: string
  /** Grows with each change of the content. For files, the operator counts the changes. */
  readonly generation: number
  /** The creation time, in milliseconds since the epoch; left out for files. */
  readonly createdMs?: number
  /** Whether the annotation `tollway.dev/paused: "true"` requests that the content in force stays. */
  readonly paused: boolean
  /** The value of the annotation `tollway.dev/rotate-key`. Each change of it requests a new API key. */
  readonly rotation?: string
  /** The spec, which is not validated. */
  readonly spec: unknown
  /** Where the resource is declared, for messages: `shop/limits.yaml#2`. */
  readonly origin: string
}

/** Returns what the annotations of a resource request. Unknown values are ignored. */
export function readAnnotations(annotations: unknown): Pick<SourcedResource, 'paused' | 'rotation'> {
  const found = annotations as Readonly<Record<string, unknown>> | null | undefined
  const rotation = found?.[rotationAnnotation]
  const isAsked = typeof rotation === 'string' && rotation !== ''
  return { paused: found?.[pausedAnnotation] === 'true', ...(isAsked && { rotation }) }
}

export const pausedAnnotation = `${apiGroup}/paused`
export const rotationAnnotation = `${apiGroup}/rotate-key`

export interface SourceProblem {
  /** The file: `shop/limits.yaml`. */
  readonly origin: string
  readonly message: string
  /**
   * Present if only a person's change ends the problem. `attempt` is present if a further attempt may
   * succeed; see `ReplicaObstacle.attempt`.
   */
  readonly obstacle?: { readonly attempt?: 'failed' | 'waiting' }
  /** Whether the problem leaves the operator ready; see `isReady`. */
  readonly isWarning?: boolean
}

/**
 * Adds resources to those of a source. A resource of the source replaces an added resource of the same uid.
 */
export function withBuiltIn(source: Source, builtIn: readonly SourcedResource[]): Source {
  return {
    ...source,
    list() {
      const own = source.list()
      const isReplaced = (one: SourcedResource) => own.some(other => other.uid === one.uid)
      return [...own, ...builtIn.filter(one => !isReplaced(one))]
    },
  }
}

/** Thrown when the operator's account lacks a right to the Secrets of a namespace. */
export class SecretForbiddenError extends Error {
  override readonly name = 'SecretForbiddenError'
  /** How to grant the right: a sentence that ends with the command. */
  readonly advice: string

  /** @param message names the Secret and the missing right */
  constructor(message: string, advice: string) {
    super(message)
    this.advice = advice
  }
}

/** Returns `namespace/name`, the name of a resource in messages and in the feed. */
export function qualifiedName({ namespace, name }: Pick<SourcedResource, 'namespace' | 'name'>): string {
  return `${namespace}/${name}`
}
