import { createHash } from 'node:crypto'
import type { DomainConfig, Problem } from '../rules/config.ts'
import type { FoundFiles } from './find-files.ts'
import type { Resources } from './read-resources.ts'

/** A whole configuration that is still to be read, from files or a response. It may go to another thread. */
export type Reading = ({ readonly from: 'files' } & FoundFiles) | ({ readonly from: 'response' } & Resources)

/** A reading in parts, and the problems and warnings of its form as a whole. */
export interface OpenReading {
  readonly parts: readonly Part[]
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
}

/** A file, or a resource of a response: one configuration. */
export interface Part {
  /** The name that its problems have. */
  readonly source: string
  readonly bytes: number
  /** Of the content, as far as it is known before it is read. */
  readonly hash: string | undefined
  /** Reads the content. Throws an Error that says why it cannot be read. */
  read(): Content
}

export interface Content {
  readonly hash: string
  /** Throws an Error for a content that has the wrong form. */
  decode(): Decoded
}

export type Decoded =
  | { readonly value: DomainConfig; readonly warnings: readonly Problem[] }
  | { readonly problems: readonly Problem[] }

/** @param hashes of the parts in their order, as far as they are known */
export async function openReading(
  reading: Reading,
  hashes: readonly (string | undefined)[],
): Promise<OpenReading> {
  // A thread loads only what it needs: the messages of the feed take as long to load as YAML.
  if (reading.from === 'files') return (await import('./read-files.ts')).openFiles(reading, hashes)
  return (await import('./read-resources.ts')).openResources(reading, hashes)
}

/** Reads and decodes a part. Every error is a problem of the part. */
export function decodePart(part: Part): Decoded {
  return orProblem(part, () => part.read().decode())
}

/** An error of the work is a problem of the part. */
export function orProblem<T>({ source }: Part, work: () => T): T | { readonly problems: readonly Problem[] } {
  try {
    return work()
  } catch (error) {
    return { problems: [{ source, path: '', message: (error as Error).message }] }
  }
}

export function hashOf(content: Uint8Array): string {
  return createHash('sha256').update(content).digest('base64')
}
