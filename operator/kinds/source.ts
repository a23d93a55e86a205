import { apiGroup } from '@tollway/crds/resource-kind.ts'
/**
 * A source of custom resources: a folder of files, or the API server. It validates only the envelope
 * (apiVersion, kind, name).
 */
export interface Source {
  /** Begins to read. Resolves when `list` is complete for the first time. */
  start(): Promise<void>
  /**
   * Returns all present resources, in no particular order. An unchanged resource is the same object. A folder
   * also has Secrets (`v1`); those of an API server are never listed.
   */
  list(): readonly SourcedResource[]
  /** Returns the problems of the files, each with its location. Each scan replaces all of them. */
  problems(): readonly SourceProblem[]
  /**
   * Returns the problems that may hide resources, such as a file that cannot be read. While there is one, a
   * resource that `list` lacks may be declared there.
   */
  unread(): readonly SourceProblem[]
  /** Calls the listener after each change of `list` or `problems`, without details. */
  onChange(listener: () => void): void
  stop(): Promise<void>
}

export interface SourcedResource {
  readonly apiVersion: string
  readonly kind: string
  readonly namespace: string
  readonly name: string
  /**
   * Stable as long as the resource is the same one: the API server's, or the UUIDv5 of kind/namespace/name.
   */
  readonly uid: string
  /** Grows when the content changes; for files, the operator counts the changes. */
  readonly generation: number
  /** The creation time, in milliseconds since the epoch; left out for files, which have none. */
  readonly createdMs?: number
  /** Whether its annotation `tollway.dev/paused: "true"` requests that the content in force stays. */
  readonly paused: boolean
  /** The text of its annotation `tollway.dev/rotate-key`, whose change requests another API key. */
  readonly rotation?: string
  /** The spec, which is not validated. */
  readonly spec: unknown
  /** Its location, for messages: `shop/limits.yaml#2`. */
  readonly origin: string
}

/** The requests in the annotations of a resource; unknown values are ignored. */
export function readAnnotations(annotations: unknown): Pick<SourcedResource, 'paused' | 'rotation'> {
  const found = annotations as Readonly<Record<string, unknown>> | null | undefined
  const rotation = found?.[rotationAnnotation]
  const isAsked = typeof rotation === 'string' && rotation !== ''
  return { paused: found?.[pausedAnnotation] === 'true', ...(isAsked && { rotation }) }
}

export const pausedAnnotation = `${apiGroup}/paused`
export const rotationAnnotation = `${apiGroup}/rotate-key`

export interface SourceProblem {
  /** The location: `shop/limits.yaml`. */
  readonly origin: string
  /** The problem, and its place in the file. */
  readonly message: string
  /**
   * Present if only a change by a person ends the problem; with `attempt`, if the attempt that has failed, or
   * the next one that is waited for, is not the last one.
   */
  readonly obstacle?: { readonly attempt?: 'failed' | 'waiting' }
  /** Whether the problem does not affect readiness. */
  readonly isWarning?: boolean
}

/** Adds resources to a source. A resource of the source hides an added one of the same kind and name. */
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

/** The operator's account lacks a right to Secrets of a namespace. */
export class SecretForbiddenError extends Error {
  override readonly name = 'SecretForbiddenError'
  /** How to grant the right, as a sentence that ends with the command. */
  readonly advice: string

  /** @param message the Secret, and the access that is missing */
  constructor(message: string, advice: string) {
    super(message)
    this.advice = advice
  }
}

/** Returns `namespace/name`, the name of a resource in messages and in the feed. */
export function qualifiedName({ namespace, name }: Pick<SourcedResource, 'namespace' | 'name'>): string {
  return `${namespace}/${name}`
}
