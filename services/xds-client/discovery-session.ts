import { setImmediate as nextTurn } from 'node:timers/promises'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { hashContent } from '@tollway/chassis/hash-content.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { statusCodes } from '@tollway/grpc/status.ts'
import type {
  DiscoveryRequestSchema,
  DiscoveryResponse,
} from '@tollway/proto/envoy/service/discovery/v3/discovery'

type Request = MessageInitShape<typeof DiscoveryRequestSchema>

interface SessionAnswer {
  readonly request: Request
  readonly verdict: 'good' | 'rejected'
}

/**
 * The state of a subscription to a management server, across streams. Content that is already active is
 * acknowledged without a reload, whatever its version; a version alone proves nothing, since a server may
 * count from 1 again. Responses are loaded one at a time, in the order in which they were passed in.
 */
export interface DiscoverySession {
  /**
   * Returns the first request of a stream. It has the active version, so that a server with the same one need
   * not send it.
   */
  firstRequest(): Request
  answer(response: DiscoveryResponse): Promise<SessionAnswer>
  /** Returns whether any configuration is active. */
  isConfigured(): boolean
  /**
   * Loads a response that was not received now. Its version is not sent to servers: one that counts from 1
   * again could use it for other content. Resolves with its problems; nothing has changed then. If a
   * configuration is active when its turn comes, it resolves with undefined, and nothing has changed either.
   */
  adopt(response: DiscoveryResponse): Promise<readonly string[] | undefined>
}

/** The type of the resources, and the function that loads them. */
export interface Subscription {
  /** `type.googleapis.com/<package>.<Message>`. */
  readonly typeUrl: string
  /** What this process understands beyond the type's own messages; the server gets it in node.metadata. */
  readonly features?: readonly string[]
  /**
   * Activates the whole response or, if it has a problem, nothing. Resolves with all problems, one line each:
   * `<name of the resource>: <problem>`. Called for one response at a time; it never rejects because of the
   * response's content or type.
   *
   * @param hashes the hash of each resource's value, in order
   */
  load(response: DiscoveryResponse, hashes: readonly string[]): Promise<readonly string[]>
}

export interface DiscoverySessionOptions extends Subscription {
  /** The identity of this node for the management server. */
  readonly nodeId: string
  readonly nodeMetadata: ReadonlyMap<string, string>
  readonly log: Log
}

export function createDiscoverySession(options: DiscoverySessionOptions): DiscoverySession {
  const { typeUrl, load, nodeId, nodeMetadata, log } = options
  const node = { id: nodeId, metadata: Object.fromEntries(nodeMetadata) }
  let active: { readonly version: string; readonly content: string } | undefined
  let rejected: { readonly content: string; readonly problems: readonly string[] } | undefined
  let last: Promise<unknown> = Promise.resolve()

  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = last.then(work)
    last = done.catch(() => {})
    return done
  }

  async function judge(
    response: DiscoveryResponse,
    { content, hashes }: Fingerprint,
  ): Promise<readonly string[]> {
    if (content === active?.content) return []
    return content === rejected?.content ? rejected.problems : await load(response, hashes)
  }

  async function answer(response: DiscoveryResponse): Promise<SessionAnswer> {
    const fingerprint = await computeFingerprint(response)
    const { content } = fingerprint
    const problems = await judge(response, fingerprint)
    const request = { typeUrl, responseNonce: response.nonce, node }
    if (problems.length > 0) {
      const message = problems.join('\n')
      const errorDetail = { code: statusCodes.INVALID_ARGUMENT, message }
      rejected = { content, problems }
      return { request: { ...request, versionInfo: active?.version ?? '', errorDetail }, verdict: 'rejected' }
    }
    rejected = undefined
    active = { version: response.versionInfo, content }
    log.debug('acknowledge configuration', { version: active.version })
    return { request: { ...request, versionInfo: active.version }, verdict: 'good' }
  }

  async function adopt(response: DiscoveryResponse): Promise<readonly string[] | undefined> {
    if (active !== undefined) return undefined
    const { content, hashes } = await computeFingerprint(response)
    const problems = await load(response, hashes)
    if (problems.length === 0) active = { version: '', content }
    return problems
  }

  return {
    firstRequest: () => ({ versionInfo: active?.version ?? '', node, typeUrl }),
    answer: response => inTurn(() => answer(response)),
    isConfigured: () => active !== undefined,
    adopt: response => inTurn(() => adopt(response)),
  }
}

interface Fingerprint {
  /** Equal for equal types and resources. */
  readonly content: string
  /** The hash of each resource's value, in order. */
  readonly hashes: readonly string[]
}

async function computeFingerprint({ typeUrl, resources }: DiscoveryResponse): Promise<Fingerprint> {
  const hashes = await hashResources(resources)
  await nextTurn()
  const types = resources.map(resource => resource.typeUrl)
  return { content: hashContent(JSON.stringify([typeUrl, types, hashes])), hashes }
}

/** The bytes that are hashed in one turn of the event loop, which takes one to three milliseconds. */
const bytesPerTurn = 1024 * 1024

/** The bytes whose hash takes as long as to begin and to end a hash. */
const bytesOfHash = 1024

/** Resolves with the SHA-256 of each resource as base64, in order. Other work runs after each MiB. */
async function hashResources(
  resources: readonly { readonly value: Uint8Array }[],
): Promise<readonly string[]> {
  const hashes: string[] = []
  let left = bytesPerTurn
  for (const { value } of resources) {
    if (left < 0) {
      await nextTurn()
      left = bytesPerTurn
    }
    hashes.push(hashContent(value))
    left -= value.length + bytesOfHash
  }
  return hashes
}

/**
 * Checks the type of a response, or of a resource: an empty list of another type would otherwise delete
 * everything.
 *
 * @throws Error with both types
 */
export function checkType(found: string, expected: string): void {
  if (found !== expected) throw new Error(`its type is '${found}', not ${expected}`)
}
