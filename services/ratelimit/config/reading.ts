import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ConfigProblem, RateLimitDomain } from '../rules/model.ts'
import { type ValidateOptions, validateDomains } from '../rules/validate.ts'
import type { FoundFiles } from './find-files.ts'

export interface Resources {
  readonly typeUrl: string
  readonly resources: readonly { readonly typeUrl: string; readonly value: Uint8Array }[]
  /** The hash of each resource's value, in order. */
  readonly hashes: readonly string[]
}

/** A whole configuration before it is read, as plain data that can be sent to another thread. */
export type Reading = ({ readonly from: 'files' } & FoundFiles) | ({ readonly from: 'response' } & Resources)

/** A reading divided into parts, with the problems and warnings that belong to none of them. */
export interface OpenReading {
  readonly parts: readonly ReadingPart[]
  readonly problems: readonly ConfigProblem[]
  readonly warnings: readonly ConfigProblem[]
}

/** A file, or a resource of a response: one configuration. */
export interface ReadingPart {
  /** The name of the part in its problems. */
  readonly source: string
  readonly bytes: number
  /** The hash of the content, if it is known before the part is read. */
  readonly hash: string | undefined
  /** Reads the content. Throws an Error with the reason when it cannot be read. */
  read(): PartContent
}

interface PartContent {
  readonly hash: string
  /** Throws an Error for malformed content. */
  decode(): DecodedPart
}

type DecodedPart =
  | { readonly value: RateLimitDomain; readonly warnings: readonly ConfigProblem[] }
  | { readonly problems: readonly ConfigProblem[] }

/** Reads and decodes a part. Every error is a problem of the part. */
export function decodePart(part: ReadingPart): DecodedPart {
  return orProblem(part, () => part.read().decode())
}

function orProblem<T>(
  { source }: ReadingPart,
  work: () => T,
): T | { readonly problems: readonly ConfigProblem[] } {
  try {
    return work()
  } catch (error) {
    return { problems: [{ source, path: '', message: (error as Error).message }] }
  }
}

/** The content hash of a part, and the domain that it configures. */
export interface KnownPart {
  readonly hash: string
  readonly domain: string
}

export interface ReadingChanges {
  readonly problems: readonly ConfigProblem[]
  readonly warnings: readonly ConfigProblem[]
  /** All parts, in order. Not to be used if there are problems. */
  readonly parts: readonly KnownPart[]
  /** The complete configurations of the new and changed domains, by domain. */
  readonly changed: ReadonlyMap<string, readonly RateLimitDomain[]>
}

export interface ReadOptions extends ValidateOptions {
  readonly inForce: readonly KnownPart[]
  /** The hash of each file's content, in order; undefined where it is not known. Empty for a response. */
  readonly fileHashes: readonly (string | undefined)[]
  /** Changes of more bytes are not read, and `readChanges` resolves with undefined. */
  readonly maxBytes: number
}

/**
 * Reads and validates the changes of a reading. A domain whose parts are all active is neither decoded nor
 * validated again, and its warnings are not repeated. Resolves with undefined when the changes have more than
 * `maxBytes` bytes. Never rejects because of the content.
 *
 * Decisions can run between the steps of this function: with thousands of domains, a step takes some
 * milliseconds.
 */
export async function readChanges(
  reading: Reading,
  options: ReadOptions,
): Promise<ReadingChanges | undefined> {
  const { parts, ...whole } = await openReading(reading, options)
  const domainOf = new Map(options.inForce.map(({ hash, domain }) => [hash, domain]))
  const unknown = parts.filter(({ hash }) => hash === undefined || !domainOf.has(hash))
  if (countBytes(unknown) > options.maxBytes) return undefined
  await nextTurn()
  const identified = parts.map(part => identify(part, domainOf))
  const unread = [...whole.problems, ...identified.flatMap(listProblems)]
  if (unread.length > 0) return rejectReading(unread)

  const known = identified.filter(one => 'domain' in one)
  await nextTurn()
  const contents = hashDomains(known)
  await nextTurn()
  const inForce = hashDomains(options.inForce)
  await nextTurn()
  const changed = [...known.entries()].filter(
    ([, { domain }]) => contents.get(domain) !== inForce.get(domain),
  )
  if (countBytes(changed.flatMap(([index]) => parts[index] ?? [])) > options.maxBytes) return undefined
  const decoded = changed.flatMap(
    ([index, one]) => one.decoded ?? parts.slice(index, index + 1).map(decodePart),
  )
  const undecoded = decoded.flatMap(listProblems)
  if (undecoded.length > 0) return rejectReading(undecoded)

  const values = decoded.filter(one => 'value' in one)
  const configs = values.map(({ value }) => value)
  const { problems, warnings } = validateDomains(configs, options)
  return {
    problems,
    warnings: [...whole.warnings, ...values.flatMap(one => one.warnings), ...warnings],
    parts: known.map(({ hash, domain }) => ({ hash, domain })),
    changed: Map.groupBy(configs, ({ domain }) => domain),
  }
}

async function openReading(
  reading: Reading,
  { fileHashes }: Pick<ReadOptions, 'fileHashes'>,
): Promise<OpenReading> {
  // Imported here, so that a thread loads only the module that it needs. The messages of the feed take as
  // long to load as the YAML parser.
  if (reading.from === 'files') return (await import('./read-files.ts')).openFiles(reading, fileHashes)
  return (await import('./read-resources.ts')).openResources(reading)
}

/** Returns the joined hashes of each domain's parts. Equal texts mean equal configurations. */
function hashDomains(parts: readonly KnownPart[]): ReadonlyMap<string, string> {
  const contents = new Map<string, string>()
  for (const { hash, domain } of parts) contents.set(domain, `${contents.get(domain) ?? ''} ${hash}`)
  return contents
}

function rejectReading(problems: readonly ConfigProblem[]): ReadingChanges {
  return { problems, warnings: [], parts: [], changed: new Map() }
}

function listProblems(
  one: object & { readonly problems?: readonly ConfigProblem[] },
): readonly ConfigProblem[] {
  return one.problems ?? []
}

function countBytes(parts: readonly ReadingPart[]): number {
  return parts.reduce((sum, { bytes }) => sum + bytes, 0)
}

type Identified = KnownPart & { readonly decoded?: DecodedPart }

/**
 * Returns the hash and the domain of a part, which is decoded only if it is not in the active configuration.
 */
function identify(
  part: ReadingPart,
  domainOf: ReadonlyMap<string, string>,
): Identified | { readonly problems: readonly ConfigProblem[] } {
  const { hash } = part
  const domain = hash === undefined ? undefined : domainOf.get(hash)
  if (hash !== undefined && domain !== undefined) return { hash, domain }
  return orProblem(part, () => {
    const content = part.read()
    const same = domainOf.get(content.hash)
    if (same !== undefined) return { hash: content.hash, domain: same }
    const decoded = content.decode()
    return 'problems' in decoded ? decoded : { hash: content.hash, domain: decoded.value.domain, decoded }
  })
}
