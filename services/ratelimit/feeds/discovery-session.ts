import { createHash } from 'node:crypto'
import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Log } from '@tollway/chassis/log.ts'
import { statusCodes } from '@tollway/grpc/status.ts'
import type {
  DiscoveryRequestSchema,
  DiscoveryResponse,
} from '@tollway/proto/envoy/service/discovery/v3/discovery'
import type { Problem } from '../rules/config.ts'
import { formatProblem } from '../rules/format-problem.ts'
import type { Configuration } from './configuration.ts'
import { rateLimitTypeUrl } from './read-resources.ts'

type Request = MessageInitShape<typeof DiscoveryRequestSchema>

export interface Answer {
  readonly request: Request
  readonly verdict: 'good' | 'refused' | 'refused before'
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
  adopt(response: DiscoveryResponse): Promise<readonly Problem[] | undefined>
}

export interface DiscoverySessionOptions {
  readonly nodeId: string
  readonly nodeMetadata: ReadonlyMap<string, string>
  readonly configuration: Configuration
  readonly log: Log
}

export function createDiscoverySession(options: DiscoverySessionOptions): DiscoverySession {
  const { nodeId, nodeMetadata, configuration, log } = options
  const node = { id: nodeId, metadata: Object.fromEntries(nodeMetadata) }
  let inForce: { readonly version: string; readonly content: string } | undefined
  let refused: { readonly content: string; readonly problems: readonly Problem[] } | undefined
  let last: Promise<unknown> = Promise.resolve()

  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = last.then(work)
    last = done.catch(() => {})
    return done
  }

  function load({ typeUrl, resources }: DiscoveryResponse): Promise<readonly Problem[]> {
    const plain = resources.map(({ typeUrl: type, value }) => ({ typeUrl: type, value }))
    return configuration.load({ from: 'response', typeUrl, resources: plain })
  }

  async function judge(response: DiscoveryResponse, content: string): Promise<readonly Problem[]> {
    if (content === inForce?.content) return []
    return content === refused?.content ? refused.problems : await load(response)
  }

  async function answer(response: DiscoveryResponse): Promise<Answer> {
    const content = fingerprintOf(response)
    const problems = await judge(response, content)
    const request = { typeUrl: rateLimitTypeUrl, responseNonce: response.nonce, node }
    if (problems.length > 0) {
      const message = problems.map(formatProblem).join('\n')
      const errorDetail = { code: statusCodes.INVALID_ARGUMENT, message }
      const verdict = content === refused?.content ? 'refused before' : 'refused'
      refused = { content, problems }
      return { request: { ...request, versionInfo: inForce?.version ?? '', errorDetail }, verdict }
    }
    refused = undefined
    inForce = { version: response.versionInfo, content }
    log.debug('configuration acknowledged', { version: inForce.version })
    return { request: { ...request, versionInfo: inForce.version }, verdict: 'good' }
  }

  async function adopt(response: DiscoveryResponse): Promise<readonly Problem[] | undefined> {
    if (inForce !== undefined) return undefined
    const problems = await load(response)
    if (problems.length === 0) inForce = { version: '', content: fingerprintOf(response) }
    return problems
  }

  return {
    firstRequest: () => ({ versionInfo: inForce?.version ?? '', node, typeUrl: rateLimitTypeUrl }),
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
