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

/** The subscribed resources, and the function that loads them. */
export interface Subscription {
  /** `type.googleapis.com/<package>.<Message>`. */
  readonly typeUrl: string
  /**
   * Features that this process understands beyond the messages of the type; sent to the server in
   * node.metadata.
   */
  readonly features?: readonly string[]
  /**
   * Activates the whole response or, if it has a problem, nothing. Resolves with all problems, one line each:
   * `<name of the resource>: <problem>`. Never rejects because of the content or the type. Only one call runs
   * at a time.
   *
   * @param hashes the SHA-256 of each value as base64, in order
   */
  load(response: DiscoveryResponse, hashes: readonly string[]): Promise<readonly string[]>
}

export interface DiscoverySessionOptions extends Subscription {
  /** The identity of this process for the management server (node.id). */
  readonly nodeId: string
  readonly nodeMetadata: ReadonlyMap<string, string>
  readonly log: Log
}

interface SessionAnswer {
  readonly request: Request
  readonly verdict: 'good' | 'rejected'
}

/**
 * The state of a subscription to a management server, which outlives its streams. A response with the same
 * content as the active one is acknowledged without loading it again. Versions are not compared, since a
 * server may count from 1 again. Responses are loaded one at a time, in order.
 */
export class DiscoverySession {
  readonly #options: DiscoverySessionOptions
  readonly #node: Pick<Request, 'node'>['node']
  #active: { readonly version: string; readonly content: string } | undefined
  #rejected: { readonly content: string; readonly problems: readonly string[] } | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: DiscoverySessionOptions) {
    this.#options = options
    this.#node = { id: options.nodeId, metadata: Object.fromEntries(options.nodeMetadata) }
  }

  /** Whether a configuration was loaded. */
  get isConfigured(): boolean {
    return this.#active !== undefined
  }

  /**
   * Returns the first request of a stream. It contains the active version: a server with the same version need
   * not send the resources.
   */
  firstRequest(): Request {
    return { versionInfo: this.#active?.version ?? '', node: this.#node, typeUrl: this.#options.typeUrl }
  }

  /** Loads a response. Resolves with the request that acknowledges or rejects it. */
  answer(response: DiscoveryResponse): Promise<SessionAnswer> {
    return this.#inTurn(async () => {
      const { typeUrl, log } = this.#options
      const fingerprint = await computeFingerprint(response)
      const { content } = fingerprint
      const problems = await this.#judge(response, fingerprint)
      const request = { typeUrl, responseNonce: response.nonce, node: this.#node }
      if (problems.length > 0) {
        const errorDetail = { code: statusCodes.INVALID_ARGUMENT, message: problems.join('\n') }
        this.#rejected = { content, problems }
        const versionInfo = this.#active?.version ?? ''
        return { request: { ...request, versionInfo, errorDetail }, verdict: 'rejected' }
      }
      const version = response.versionInfo
      this.#rejected = undefined
      this.#active = { version, content }
      log.debug('acknowledge configuration', { version })
      return { request: { ...request, versionInfo: version }, verdict: 'good' }
    })
  }

  /**
   * Loads a stored response. Resolves with its problems, an empty list if it is active now; or with undefined
   * if a configuration was active already. The version of the response is not sent to servers: a server that
   * counts from 1 again could use it for other content.
   */
  adopt(response: DiscoveryResponse): Promise<readonly string[] | undefined> {
    return this.#inTurn(async () => {
      if (this.#active !== undefined) return undefined
      const { content, hashes } = await computeFingerprint(response)
      const problems = await this.#options.load(response, hashes)
      if (problems.length === 0) this.#active = { version: '', content }
      return problems
    })
  }

  async #judge(response: DiscoveryResponse, { content, hashes }: Fingerprint): Promise<readonly string[]> {
    if (content === this.#active?.content) return []
    if (content === this.#rejected?.content) return this.#rejected.problems
    return await this.#options.load(response, hashes)
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work)
    this.#last = done.catch(() => {})
    return done
  }
}

interface Fingerprint {
  /** A hash of the type and the resources. */
  readonly content: string
  /** The SHA-256 of each value as base64, in order. */
  readonly hashes: readonly string[]
}

async function computeFingerprint({ typeUrl, resources }: DiscoveryResponse): Promise<Fingerprint> {
  const hashes = await hashResources(resources)
  await nextTurn()
  const types = resources.map(resource => resource.typeUrl)
  return { content: hashContent(JSON.stringify([typeUrl, types, hashes])), hashes }
}

/** Hashing this many bytes takes one to three milliseconds. */
const bytesPerTurn = 1024 * 1024

/** Beginning and ending a hash costs as much time as hashing this many bytes. */
const bytesOfHash = 1024

/**
 * Returns the SHA-256 of each resource as base64, in order. Other work of the event loop runs after each MiB.
 */
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
 * Throws for another type, because an empty list of that type would delete everything.
 *
 * @throws Error that names both types if they differ
 */
export function checkType(found: string, expected: string): void {
  if (found !== expected) throw new Error(`its type is '${found}', not ${expected}`)
}
