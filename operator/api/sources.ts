import { hash } from 'node:crypto'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { RateLimitDomain } from '@tollway/ratelimit/rules/model.ts'
import type { Brokers } from '../broker-queries/brokers.ts'
import type { ReadMerchantBooks } from '../kinds/merchant/merchant-books.ts'
import type { DomainGrants } from '../kinds/rate-limit-config/rate-limit-config.ts'
import type { FeedStates } from '../leader/feed-states.ts'
import type { PodSessions } from '../ratelimit-queries/pod-sessions.ts'
import type { StatusReport } from '../status/status-report.ts'
import type { RightScope } from './access.ts'
import { errorOfField } from './errors.ts'

/** What the API takes its answers from: implemented for one machine and for a cluster. */
export interface ApiSources {
  readonly clock: Pick<Clock, 'nowMs'>
  readonly pods: PodSessions
  readonly report: () => Pick<StatusReport, 'resources'>
  /** Returns the domains in force, each with the `namespace/name` of its resource. */
  readonly domains: () => readonly RateLimitDomain[]
  /** The namespaces that may use a domain. Every namespace may use a domain that is not listed. */
  readonly domainGrants: DomainGrants
  readonly feedStates: FeedStates
  readonly brokers: Brokers
  /**
   * Reads the balances of the merchants of resources, and the result of the last proof of the books. Rejects
   * with the cause if the payments service does not answer.
   */
  readonly books: ReadMerchantBooks
  /** Applies a resource with the rights of the caller. Rejects with an `ApiError`. */
  readonly apply: (request: ApplyRequest) => Promise<AppliedResource>
  /**
   * Reads a resource as its author wrote it. Rejects with an `ApiError`, of status 404 if the resource does
   * not exist.
   */
  readonly manifest: (request: ManifestRequest) => Promise<WrittenResource>
}

export interface ManifestRequest extends NamedResource {
  readonly kind: string
  readonly token?: string | undefined
  readonly signal: AbortSignal
}

export interface WrittenResource {
  /** The resource as YAML; on one machine with the comments in the file. */
  readonly manifest: string
  /** The version of `manifest`, by `hashManifest`: the same for the same text. */
  readonly version: string
  readonly origin: string
}

export interface ApplyRequest extends NamedResource {
  readonly resource: Readonly<Record<string, unknown>>
  /** The same resource as YAML, with the comments of its author. */
  readonly manifest?: string | undefined
  readonly dryRun: boolean
  /** Whether to take over fields that other field managers own in a cluster. */
  readonly force: boolean
  /** The version that the resource must still have; any version if left out. */
  readonly version?: string | undefined
  /** The bearer token of the caller in a cluster. */
  readonly token?: string | undefined
  readonly signal: AbortSignal
}

export interface AppliedResource {
  readonly created: boolean
  /** Where the resource is declared: the file, or `cluster`. */
  readonly origin: string
  /** The version after the change; for a dry run, the version that the resource would have. */
  readonly version: string
}

/** A change of a counter, for logs and Events. Entries are left out: they may be personal data. */
export interface CounterChangeEvent {
  readonly user: string
  readonly action: 'reset' | 'raise'
  readonly domain: string
  /** The rule of the counter; empty if the outcome is unknown. */
  readonly rule: string
  /** Why it is unknown whether the counter has changed; undefined if it has. */
  readonly unknown?: string | undefined
  /** The hits by which a raise changed the counter; undefined for a reset, which clears it. */
  readonly by?: number | undefined
  /** The RateLimitConfig that defines the domain; undefined if there is none. */
  readonly owner: NamedResource | undefined
}

interface NamedResource {
  readonly namespace: string
  readonly name: string
}

export const findDomain = ({ domains }: Pick<ApiSources, 'domains'>, domain: string) =>
  domains().find(content => content.domain === domain)

export function findDomainOwner(
  sources: Pick<ApiSources, 'domains'>,
  domain: string,
): NamedResource | undefined {
  const found = findDomain(sources, domain)
  return found && parseResourceName(found.name)
}

/**
 * Returns the scope in which a caller needs the right for a domain: the resource that defines it, or
 * everything if there is none.
 */
export const resolveDomainScope = (sources: Pick<ApiSources, 'domains'>, domain: string): RightScope => ({
  ...findDomainOwner(sources, domain),
  domain,
})

export function parseResourceName(text: string): NamedResource {
  const [namespace = '', name = ''] = text.split('/')
  return { namespace, name }
}

const versionLength = 32

/**
 * Returns the version of a manifest: a hash of its text. A change of the status of the resource does not
 * change it.
 */
export const hashManifest = (manifest: string) => hash('sha256', manifest, 'hex').slice(0, versionLength)

/**
 * @param expected the version that the caller has read; undefined to accept any
 * @param found the version of the resource; undefined if it does not exist
 * @throws ApiError with 409 if they differ
 */
export function assertVersion(
  {
    namespace,
    name,
    version: expected,
  }: Record<'namespace' | 'name', string> & { version?: string | undefined },
  found: string | undefined,
): void {
  if (expected === undefined || expected === found) return
  const resource = `RateLimitConfig ${namespace}/${name}`
  const message =
    found === undefined
      ? `version: ${resource} does not exist any more; expected version ${expected}`
      : `version: ${resource} has version ${found}; expected ${expected}: read it again`
  throw errorOfField('changed', 'version', message)
}
