import { createHash } from 'node:crypto'
import { fromBinary, type MessageInitShape } from '@bufbuild/protobuf'
import type { Log } from '@tollway/chassis/log.ts'
import { statusCodes } from '@tollway/grpc/status.ts'
import type {
  DiscoveryRequestSchema,
  DiscoveryResponse,
} from '@tollway/proto/envoy/service/discovery/v3/discovery'
import { RateLimitConfigSchema } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import type { DomainConfig, Problem } from '../rules/config.ts'
import { maxFindings } from '../rules/findings.ts'
import { formatProblem } from '../rules/format-problem.ts'
import type { Configuration } from './configuration.ts'
import { decodeResource } from './decode-resource.ts'

/** The type that the service asks a management server for. */
export const rateLimitTypeUrl = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'

type Request = MessageInitShape<typeof DiscoveryRequestSchema>

export interface Answer {
  readonly request: Request
  readonly verdict: 'good' | 'refused' | 'refused before'
}

/**
 * What this process tells a management server, whatever streams come and go. Content that is in force already
 * is acknowledged without a reload, whatever its version; a version alone proves nothing, for a server may
 * count from 1 again.
 */
export interface DiscoverySession {
  /** A version in force is told, so that a server that has the same may save itself the rest. */
  firstRequest(): Request
  answer(response: DiscoveryResponse): Answer
  /** Whether anything is in force. */
  isConfigured(): boolean
  /**
   * Puts a response in force that no server sent now. Its version is not told to any: one that counts from 1
   * again could mean another content by it. Answers what is wrong with it; then nothing has changed.
   */
  adopt(response: DiscoveryResponse): readonly Problem[]
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

  function judge(response: DiscoveryResponse, content: string): readonly Problem[] {
    if (content === inForce?.content) return []
    if (content === refused?.content) return refused.problems
    const { configs, problems } = readResources(response)
    if (problems.length === 0) return configuration.load(configs, [])
    configuration.refuse(problems)
    return problems
  }

  return {
    firstRequest: () => ({ versionInfo: inForce?.version ?? '', node, typeUrl: rateLimitTypeUrl }),
    answer(response) {
      const content = fingerprintOf(response)
      const problems = judge(response, content)
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
    },
    isConfigured: () => inForce !== undefined,
    adopt(response) {
      const { configs, problems } = readResources(response)
      const all = problems.length > 0 ? problems : configuration.load(configs, [])
      if (all.length === 0) inForce = { version: '', content: fingerprintOf(response) }
      return all
    },
  }
}

/** Judges nothing but the form; every resource that has the wrong one is told. */
function readResources(response: DiscoveryResponse) {
  const configs: DomainConfig[] = []
  const problems: Problem[] = []
  const read = (source: string, look: () => void) => {
    try {
      look()
    } catch (error) {
      problems.push({ source, path: '', message: (error as Error).message })
    }
  }
  // An empty list of another type would otherwise switch every limit off.
  read('response', () => checkType(response.typeUrl))
  for (const [index, { typeUrl, value }] of response.resources.entries()) {
    read(`resources[${index}]`, () => {
      checkType(typeUrl)
      configs.push(decodeResource(fromBinary(RateLimitConfigSchema, value)))
    })
  }
  return { configs, problems: problems.slice(0, maxFindings) }
}

function checkType(typeUrl: string): void {
  if (typeUrl !== rateLimitTypeUrl) throw new Error(`its type is '${typeUrl}', not ${rateLimitTypeUrl}`)
}

function fingerprintOf({ typeUrl, resources }: DiscoveryResponse): string {
  const hash = createHash('sha256')
  for (const part of [typeUrl, ...resources.flatMap(resource => [resource.typeUrl, resource.value])]) {
    hash.update(`${part.length} `).update(part)
  }
  return hash.digest('base64')
}
