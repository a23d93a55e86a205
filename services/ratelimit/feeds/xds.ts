import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { type Backoff, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Log } from '@tollway/chassis/log.ts'
import { createGrpcClient } from '@tollway/grpc/client.ts'
import {
  DiscoveryRequestSchema,
  type DiscoveryResponse,
  DiscoveryResponseSchema,
} from '@tollway/proto/envoy/service/discovery/v3/discovery'
import { RateLimitConfigSchema } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import type { DomainConfig, Problem } from '../rules/config.ts'
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

/** A client of the State of the World feed of any management server. */
export function createXdsFeed(options: XdsFeedOptions): Feed {
  const { log } = options
  const client = createGrpcClient(options.server, { maxReceiveBytes: options.maxMessageBytes })
  const backoff = createBackoff({ ...options.backoff, random: options.random })
  const stopped = new AbortController()
  const session = createSession(options, backoff)
  let running: Promise<void> = Promise.resolve()

  async function streamOnce(): Promise<void> {
    const stream = client.bidi(discoveryPath, discoveryCodec, { signal: stopped.signal })
    stream.write(session.firstRequest())
    for await (const response of stream.messages) stream.write(session.answer(response))
  }

  async function run(): Promise<void> {
    while (!stopped.signal.aborted) {
      let reason = 'the server ended the stream'
      try {
        await streamOnce()
      } catch (error) {
        reason = (error as Error).message
      }
      if (stopped.signal.aborted) return
      const waitMs = session.hadResponse() ? backoff.nextMs() : options.connectRetryMs
      log.warn('no connection to the management server', {
        server: options.server,
        reason,
        retryMs: Math.round(waitMs),
      })
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

/** What this process tells the management server; outlives the streams. */
function createSession(options: XdsFeedOptions, backoff: Backoff) {
  const { configuration, log } = options
  const node = {
    id: options.nodeId,
    metadata: Object.fromEntries(options.nodeMetadata),
  }
  let versionInForce = ''
  let hadResponse = false

  function accept(response: DiscoveryResponse): readonly Problem[] {
    if (response.versionInfo !== '' && response.versionInfo === versionInForce) return []
    const configs: DomainConfig[] = []
    for (const [index, { typeUrl, value }] of response.resources.entries()) {
      try {
        if (typeUrl !== rateLimitTypeUrl) throw new Error(`its type is ${typeUrl}, not ${rateLimitTypeUrl}`)
        configs.push(decodeResource(fromBinary(RateLimitConfigSchema, value)))
      } catch (error) {
        const problem = { source: `resources[${index}]`, path: '', message: (error as Error).message }
        configuration.refuse([problem])
        return [problem]
      }
    }
    return configuration.load(configs, [])
  }

  return {
    hadResponse: () => hadResponse,
    /** A version in force is told, so that a server that has the same may save itself the rest. */
    firstRequest: () => ({ versionInfo: versionInForce, node, typeUrl: rateLimitTypeUrl }),
    answer(response: DiscoveryResponse) {
      hadResponse = true
      const problems = accept(response)
      const answer = { typeUrl: rateLimitTypeUrl, responseNonce: response.nonce, node }
      if (problems.length > 0) {
        const message = problems.map(formatProblem).join('\n')
        return { ...answer, versionInfo: versionInForce, errorDetail: { code: 3, message } }
      }
      backoff.reset()
      versionInForce = response.versionInfo
      log.debug('configuration acknowledged', { version: versionInForce })
      return { ...answer, versionInfo: versionInForce }
    },
  }
}

/** Waits, or until aborted. */
function pause(waitMs: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const end = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, waitMs)
    signal.addEventListener('abort', end)
  })
}
