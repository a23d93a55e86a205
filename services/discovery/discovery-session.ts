import { createHash } from 'node:crypto'
import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Log } from '@tollway/chassis/log.ts'
import { statusCodes } from '@tollway/grpc/status.ts'
import type {
  DiscoveryRequestSchema,
  DiscoveryResponse,
} from '@tollway/proto/envoy/service/discovery/v3/discovery'

type Request = MessageInitShape<typeof DiscoveryRequestSchema>

export interface Answer {
  readonly request: Request
  readonly verdict: 'good' | 'refused'
}

/**
 * What this process tells a management server, whatever streams come and go. Content that is in force already
 * is acknowledged without a reload, whatever its version; a version alone proves nothing, for a server may
 * count from 1 again. Responses are loaded one after the other, in the order in which they were handed in.
 */
export interface DiscoverySession {
  /** A version in force is told, so that a server that has the same may save itself the rest. */
  firstRequest(): Request
  answer(response: DiscoveryResponse): Promise<Answer>
  /** Whether anything is in force. */
  isConfigured(): boolean
  /**
   * Puts a response in force that no server sent now. Its version is not told to any: one that counts from 1
   * again could mean another content by it. Answers what is wrong with it; then nothing has changed. When there
   * is something in force by the time of its turn, it answers undefined, and nothing has changed either.
   */
  adopt(response: DiscoveryResponse): Promise<readonly string[] | undefined>
}

/** What is asked for, and who takes it. */
export interface Subscription {
  /** `type.googleapis.com/<package>.<Message>`. */
  readonly typeUrl: string
  /**
   * Puts the whole response in force, or, when anything in it is wrong, nothing. Answers every problem, each in
   * one line: `<name of the resource>: <what is wrong>`. Asked for one response at a time; it never rejects for
   * what the response holds, not even for one of another type.
   */
  load(response: DiscoveryResponse): Promise<readonly string[]>
}

export interface DiscoverySessionOptions extends Subscription {
  /** Who asks, as the management server knows it. */
  readonly nodeId: string
  readonly nodeMetadata: ReadonlyMap<string, string>
  readonly log: Log
}

export function createDiscoverySession(options: DiscoverySessionOptions): DiscoverySession {
  const { typeUrl, load, nodeId, nodeMetadata, log } = options
  const node = { id: nodeId, metadata: Object.fromEntries(nodeMetadata) }
  let inForce: { readonly version: string; readonly content: string } | undefined
  let refused: { readonly content: string; readonly problems: readonly string[] } | undefined
  let last: Promise<unknown> = Promise.resolve()

  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = last.then(work)
    last = done.catch(() => {})
    return done
  }

  async function judge(response: DiscoveryResponse, content: string): Promise<readonly string[]> {
    if (content === inForce?.content) return []
    return content === refused?.content ? refused.problems : await load(response)
  }

  async function answer(response: DiscoveryResponse): Promise<Answer> {
    const content = fingerprintOf(response)
    const problems = await judge(response, content)
    const request = { typeUrl, responseNonce: response.nonce, node }
    if (problems.length > 0) {
      const message = problems.join('\n')
      const errorDetail = { code: statusCodes.INVALID_ARGUMENT, message }
      refused = { content, problems }
      return { request: { ...request, versionInfo: inForce?.version ?? '', errorDetail }, verdict: 'refused' }
    }
    refused = undefined
    inForce = { version: response.versionInfo, content }
    log.debug('configuration acknowledged', { version: inForce.version })
    return { request: { ...request, versionInfo: inForce.version }, verdict: 'good' }
  }

  async function adopt(response: DiscoveryResponse): Promise<readonly string[] | undefined> {
    if (inForce !== undefined) return undefined
    const problems = await load(response)
    if (problems.length === 0) inForce = { version: '', content: fingerprintOf(response) }
    return problems
  }

  return {
    firstRequest: () => ({ versionInfo: inForce?.version ?? '', node, typeUrl }),
    answer: response => inTurn(() => answer(response)),
    isConfigured: () => inForce !== undefined,
    adopt: response => inTurn(() => adopt(response)),
  }
}

function fingerprintOf({ typeUrl, resources }: DiscoveryResponse): string {
  const hash = createHash('sha256')
  for (const part of [typeUrl, ...resources.flatMap(resource => [resource.typeUrl, resource.value])]) {
    hash.update(`${part.length} `).update(part)
  }
  return hash.digest('base64')
}
