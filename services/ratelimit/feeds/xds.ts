import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import type { Log } from '@tollway/chassis/log.ts'
import { createGrpcClient } from '@tollway/grpc/client.ts'
import { statusCodes } from '@tollway/grpc/status.ts'
import {
  DiscoveryRequestSchema,
  type DiscoveryResponse,
  DiscoveryResponseSchema,
} from '@tollway/proto/envoy/service/discovery/v3/discovery'
import { RateLimitConfigSchema } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import type { DomainConfig, Problem } from '../rules/config.ts'
import { maxFindings } from '../rules/findings.ts'
import { formatProblem } from '../rules/format-problem.ts'
import type { Configuration } from './configuration.ts'
import { decodeResource } from './decode-resource.ts'
import type { Feed } from './feed.ts'

/** The type that this feed asks for. */
export const rateLimitTypeUrl = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'

const discoveryPath = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources'
const discoveryCodec = {
  encode: (message: MessageInitShape<typeof DiscoveryRequestSchema>) =>
    toBinary(DiscoveryRequestSchema, create(DiscoveryRequestSchema, message)),
  decode: (bytes: Uint8Array) => fromBinary(DiscoveryResponseSchema, bytes),
}

export interface XdsFeedOptions {
  /** `host:port`. */
  readonly server: string
  readonly nodeId: string
  readonly nodeMetadata: ReadonlyMap<string, string>
  readonly maxMessageBytes: number
  /** The wait between tries while there was no connection yet. */
  readonly connectRetryMs: number
  /** Waits after a stream ended; begin anew after a good response. */
  readonly backoff: {
    readonly initialMs: number
    readonly maxMs: number
    readonly factor: number
    readonly jitter: number
  }
  readonly random: () => number
  readonly configuration: Configuration
  readonly log: Log
}

/**
 * A client of the State of the World feed of any management server. Content that is in force already is
 * acknowledged without a reload, whatever its version; a version alone proves nothing, for a server may count
 * from 1 again.
 */
export function createXdsFeed(options: XdsFeedOptions): Feed {
  const client = createGrpcClient(options.server, { maxReceiveBytes: options.maxMessageBytes })
  const backoff = createBackoff({ ...options.backoff, random: options.random })
  const stopped = new AbortController()
  const session = createSession(options)
  const reporter = createReporter(options)
  let hadResponse = false
  let running: Promise<void> = Promise.resolve()

  async function streamOnce(): Promise<void> {
    const stream = client.bidi(discoveryPath, discoveryCodec, { signal: stopped.signal })
    stream.write(session.firstRequest())
    for await (const response of stream.messages) {
      hadResponse = true
      reporter.connected()
      const { request, verdict } = session.answer(response)
      if (verdict === 'good') backoff.reset()
      // Some servers answer a refusal with the same again, at once and for ever.
      if (verdict === 'refused before') await pause(options.connectRetryMs, stopped.signal)
      stream.write(request)
    }
  }

  async function run(): Promise<void> {
    while (!stopped.signal.aborted) {
      let reason = 'the server ended the stream'
      try {
        await streamOnce()
      } catch (error) {
        reason = reasonOf(error)
      }
      if (stopped.signal.aborted) return
      const waitMs = hadResponse ? backoff.nextMs() : options.connectRetryMs
      reporter.interrupted(reason, waitMs)
      await pause(waitMs, stopped.signal)
    }
  }

  return {
    start() {
      running = run()
    },
    async stop() {
      stopped.abort()
      await running
      client.close()
    },
  }
}

/** Tells of each new reason for an interruption once, and of its end: a server can be away for days. */
function createReporter({ server, log }: XdsFeedOptions) {
  let told: string | undefined
  return {
    interrupted(reason: string, waitMs: number): void {
      const level = reason === told ? 'debug' : 'warn'
      told = reason
      log[level]('no connection to the management server', { server, reason, retryMs: Math.round(waitMs) })
    },
    connected(): void {
      if (told !== undefined) log.info('connected to the management server', { server })
      told = undefined
    },
  }
}

/** grpc-js wraps what the system said into sentences about its own resolver. */
function reasonOf(error: unknown): string {
  const { message } = error as Error
  return /Last error: (?:Error: )?(.*?)\.? Resolution note:/.exec(message)?.[1] || message
}

interface Answer {
  readonly request: MessageInitShape<typeof DiscoveryRequestSchema>
  readonly verdict: 'good' | 'refused' | 'refused before'
}

/** What this process tells the management server; outlives the streams. */
function createSession({ nodeId, nodeMetadata, configuration, log }: XdsFeedOptions) {
  const node = { id: nodeId, metadata: Object.fromEntries(nodeMetadata) }
  let inForce = { version: '', content: '' }
  let refused: { readonly content: string; readonly problems: readonly Problem[] } | undefined

  function judge(response: DiscoveryResponse, content: string): readonly Problem[] {
    if (content === inForce.content) return []
    if (content === refused?.content) return refused.problems
    const { configs, problems } = readResources(response)
    if (problems.length === 0) return configuration.load(configs, [])
    configuration.refuse(problems)
    return problems
  }

  return {
    /** A version in force is told, so that a server that has the same may save itself the rest. */
    firstRequest: () => ({ versionInfo: inForce.version, node, typeUrl: rateLimitTypeUrl }),
    answer(response: DiscoveryResponse): Answer {
      const content = fingerprintOf(response)
      const problems = judge(response, content)
      const request = { typeUrl: rateLimitTypeUrl, responseNonce: response.nonce, node }
      if (problems.length > 0) {
        const message = problems.map(formatProblem).join('\n')
        const errorDetail = { code: statusCodes.INVALID_ARGUMENT, message }
        const verdict = content === refused?.content ? 'refused before' : 'refused'
        refused = { content, problems }
        return { request: { ...request, versionInfo: inForce.version, errorDetail }, verdict }
      }
      refused = undefined
      inForce = { version: response.versionInfo, content }
      log.debug('configuration acknowledged', { version: inForce.version })
      return { request: { ...request, versionInfo: inForce.version }, verdict: 'good' }
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

/** Waits, or until aborted. */
function pause(waitMs: number, signal: AbortSignal): Promise<void> {
  return sleep(waitMs, undefined, { signal }).catch(() => {})
}
