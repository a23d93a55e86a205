import type { Problem, RateLimitDomain } from '../rules/config.ts'
import { type ValidateOptions, validate } from '../rules/validate.ts'
import { type Decoded, decodePart, type OpenReading, orProblem, type Part } from './reading.ts'

/** The content hash of a part, and the domain that it configures. */
export interface KnownPart {
  readonly hash: string
  readonly domain: string
}

/** The content hashes of each domain, in order: equal for equal configurations. */
export type DomainContents = ReadonlyMap<string, string>

export function contentsOf(parts: readonly KnownPart[]): DomainContents {
  const contents = new Map<string, string>()
  for (const { hash, domain } of parts) contents.set(domain, `${contents.get(domain) ?? ''} ${hash}`)
  return contents
}

/** The differences between a reading and the active configuration. */
export interface Changes {
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
  /** All parts, in order; only valid without problems. */
  readonly parts: readonly KnownPart[]
  /** The complete configurations of the new and changed domains, by domain. */
  readonly changed: ReadonlyMap<string, readonly RateLimitDomain[]>
}

export interface ReadOptions extends ValidateOptions {
  /** The active parts. */
  readonly inForce: readonly KnownPart[]
  /** Larger changes are not read. */
  readonly maxBytes: number
}

/**
 * Reads and validates the changes of a reading. A domain whose parts are all active is neither decoded nor
 * validated again, and its warnings are not repeated. Returns undefined when the changes have more than
 * `maxBytes` bytes. Never throws because of the content.
 */
export function readChanges(reading: OpenReading, options: ReadOptions): Changes | undefined {
  const { parts } = reading
  const domainOf = new Map(options.inForce.map(({ hash, domain }) => [hash, domain]))
  const unknown = parts.filter(({ hash }) => hash === undefined || !domainOf.has(hash))
  if (bytesOf(unknown) > options.maxBytes) return undefined
  const identified = parts.map(part => identify(part, domainOf))
  const unread = [...reading.problems, ...identified.flatMap(problemsOf)]
  if (unread.length > 0) return refused(unread)

  const known = identified.filter(one => 'domain' in one)
  const contents = contentsOf(known)
  const inForce = contentsOf(options.inForce)
  const changed = [...known.entries()].filter(
    ([, { domain }]) => contents.get(domain) !== inForce.get(domain),
  )
  if (bytesOf(changed.flatMap(([index]) => parts[index] ?? [])) > options.maxBytes) return undefined
  const decoded = changed.flatMap(
    ([index, one]) => one.decoded ?? parts.slice(index, index + 1).map(decodePart),
  )
  const undecoded = decoded.flatMap(problemsOf)
  if (undecoded.length > 0) return refused(undecoded)

  const values = decoded.filter(one => 'value' in one)
  const configs = values.map(({ value }) => value)
  const { problems, warnings } = validate(configs, options)
  return {
    problems,
    warnings: [...reading.warnings, ...values.flatMap(one => one.warnings), ...warnings],
    parts: known.map(({ hash, domain }) => ({ hash, domain })),
    changed: Map.groupBy(configs, ({ domain }) => domain),
  }
}

function refused(problems: readonly Problem[]): Changes {
  return { problems, warnings: [], parts: [], changed: new Map() }
}

function problemsOf(one: object & { readonly problems?: readonly Problem[] }): readonly Problem[] {
  return one.problems ?? []
}

function bytesOf(parts: readonly Part[]): number {
  return parts.reduce((sum, { bytes }) => sum + bytes, 0)
}

type Identified = KnownPart & { readonly decoded?: Decoded }

/** Returns the hash and the domain of a part. An active part is not decoded, since its domain is known. */
function identify(
  part: Part,
  domainOf: ReadonlyMap<string, string>,
): Identified | { readonly problems: readonly Problem[] } {
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
