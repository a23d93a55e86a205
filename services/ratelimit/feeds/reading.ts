import type { Problem, RateLimitDomain } from '../rules/config.ts'
import type { FoundFiles } from './find-files.ts'
import type { Resources } from './read-resources.ts'

/** The resource type that the service requests from a management server. */
export const rateLimitTypeUrl = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'

/** A whole configuration before it is read, from files or a response. It can be sent to another thread. */
export type Reading = ({ readonly from: 'files' } & FoundFiles) | ({ readonly from: 'response' } & Resources)

/** A reading in parts, with the problems and warnings about the reading as a whole. */
export interface OpenReading {
  readonly parts: readonly Part[]
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
}

/** A file, or a resource of a response: one configuration. */
export interface Part {
  /** The name of the part in its problems. */
  readonly source: string
  readonly bytes: number
  /** The hash of the content, if it is known before the part is read. */
  readonly hash: string | undefined
  /** Reads the content. Throws an Error with the reason when it cannot be read. */
  read(): Content
}

export interface Content {
  readonly hash: string
  /** Throws an Error for malformed content. */
  decode(): Decoded
}

export type Decoded =
  | { readonly value: RateLimitDomain; readonly warnings: readonly Problem[] }
  | { readonly problems: readonly Problem[] }

/** @param fileHashes the known hashes of the files' contents, in order; empty for a response */
export async function openReading(
  reading: Reading,
  fileHashes: readonly (string | undefined)[],
): Promise<OpenReading> {
  // A thread imports only one of the modules: the messages of the feed take as long to load as YAML.
  if (reading.from === 'files') return (await import('./read-files.ts')).openFiles(reading, fileHashes)
  return (await import('./read-resources.ts')).openResources(reading)
}

/** Reads and decodes a part. Every error is a problem of the part. */
export function decodePart(part: Part): Decoded {
  return orProblem(part, () => part.read().decode())
}

/** Runs the work; an error becomes a problem of the part. */
export function orProblem<T>({ source }: Part, work: () => T): T | { readonly problems: readonly Problem[] } {
  try {
    return work()
  } catch (error) {
    return { problems: [{ source, path: '', message: (error as Error).message }] }
  }
}
