/**
 * A source of custom resources: a folder of files, or the API server. It validates only the envelope
 * (apiVersion, kind, name).
 */
export interface Source {
  /** Begins to look. Resolves when the first whole look is done: from then on `list` is complete. */
  start(): Promise<void>
  /**
   * Every resource that is there now, in no particular order. The same objects until they change. Out of a
   * folder there are Secrets (`v1`) among them; those of an API server are never listed.
   */
  list(): readonly SourcedResource[]
  /** The problems of the files themselves, each with its place. Each look replaces all of them. */
  problems(): readonly SourceProblem[]
  /**
   * Those of them that hide what there is: a file that cannot be read, for example. While there is one, what
   * `list` lacks may be declared there.
   */
  unread(): readonly SourceProblem[]
  /** Called after each change of `list` or `problems`, without saying what changed. */
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
  /** Rises when the content changes; for files a count of our own. */
  readonly generation: number
  /** Since when it exists, where that is known: the API server says so, a file does not. */
  readonly createdMs?: number
  /** Its annotation `tollway.dev/paused: "true"` asks for what is in force of it to be left alone. */
  readonly paused: boolean
  /** Its annotation `tollway.dev/rotate-key`: another text asks for another API key. Left out without one. */
  readonly rotation?: string
  /** Not yet validated. */
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

const pausedAnnotation = 'tollway.dev/paused'
const rotationAnnotation = 'tollway.dev/rotate-key'

export interface SourceProblem {
  /** `shop/limits.yaml`. */
  readonly origin: string
  /** The problem, and its place in the file. */
  readonly message: string
  /** It keeps nothing from being ready. */
  readonly isWarning?: boolean
}
