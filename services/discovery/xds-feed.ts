import { setTimeout as sleep } from 'node:timers/promises'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import {
  DiscoveryRequestSchema,
  type DiscoveryResponse,
  DiscoveryResponseSchema,
} from '@tollway/proto/envoy/service/discovery/v3/discovery'
import {
  createDiscoverySession,
  type DiscoverySession,
  type DiscoverySessionOptions,
} from './discovery-session.ts'
import type { FeedConnection } from './feed-connection.ts'
import type { LastGoodFile } from './last-good-file.ts'
import { createRefusalPacer } from './refusal-pacer.ts'

const discoveryPath = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources'
const discoveryCodec = {
  encode: (message: MessageInitShape<typeof DiscoveryRequestSchema>) =>
    toBinary(DiscoveryRequestSchema, create(DiscoveryRequestSchema, message)),
  decode: (bytes: Uint8Array) => fromBinary(DiscoveryResponseSchema, bytes),
}

/** A feed of configurations from a management server. */
export interface XdsFeed {
  start(): void
  stop(): Promise<void>
}

export interface XdsFeedOptions extends DiscoverySessionOptions {
  /** Closed with the feed. */
  readonly connection: FeedConnection
  /** Stores every good configuration, for a start without the management server. */
  readonly lastGoodFile?: LastGoodFile | undefined
  /** After this time without any configuration the last good one is used. Defaults to 1,000. */
  readonly lastGoodPatienceMs?: number | undefined
  /** The delay between attempts before the first response. */
  readonly connectRetryMs: number
  /**
   * The delays after a stream ended. A stream that lasted 10 s, and longer than its delay, is opened again at
   * once. The delays start again after such a stream, and after a good response.
   */
  readonly backoff: {
    readonly initialMs: number
    readonly maxMs: number
    readonly factor: number
    readonly jitter: number
  }
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly clock: Clock
  /** The shortest time between two refusals. Defaults to 500. */
  readonly refusalIntervalMs?: number | undefined
}

/**
 * Servers that compare only versions, such as go-control-plane, answer a refusal with the same response at
 * once, and send a fix only in answer to the next refusal. Refusals are therefore delayed to bound that loop,
 * and a fix is active within this time with such a server.
 */
const defaultRefusalIntervalMs = 500

/** An attempt to connect fails sooner, so a stream that lasted this long was established. */
const establishedMs = 10_000

/** Callers get errors until then; a running management server has answered before. */
const defaultLastGoodPatienceMs = 1_000

/** Creates a client of the State of the World feed of any management server. */
export function createXdsFeed(options: XdsFeedOptions): XdsFeed {
  const { connection, lastGoodFile, lastGoodPatienceMs = defaultLastGoodPatienceMs, clock } = options
  const backoff = createBackoff({ ...options.backoff, random: options.random })
  const stopped = new AbortController()
  const refusals = createRefusalPacer(options.refusalIntervalMs ?? defaultRefusalIntervalMs, clock)
  const session = createDiscoverySession(options)
  const reporter = createReporter(options)
  let hadResponse = false
  let running: Promise<void> = Promise.resolve()
  let patience: NodeJS.Timeout | undefined

  async function streamOnce(): Promise<void> {
    const stream = connection.client().bidi(discoveryPath, discoveryCodec, { signal: stopped.signal })
    stream.write(session.firstRequest())
    try {
      for await (const response of stream.messages) {
        if (stopped.signal.aborted) return
        hadResponse = true
        reporter.connected()
        const { request, verdict } = await session.answer(response)
        if (verdict === 'refused') await refusals.send(() => stream.write(request))
        else {
          refusals.cancel()
          backoff.reset()
          lastGoodFile?.keep(withoutNonce(response))
          stream.write(request)
        }
      }
    } finally {
      refusals.cancel()
    }
  }

  /** Returns the delay before the next stream; 0 after a long-lived stream, as when a server is replaced. */
  function waitAfter(lastedMs: number): number {
    const waitMs = hadResponse ? backoff.nextMs() : options.connectRetryMs
    if (lastedMs < Math.max(waitMs, establishedMs)) return waitMs
    backoff.reset()
    return 0
  }

  async function run(): Promise<void> {
    while (!stopped.signal.aborted) {
      const startMs = clock.monotonicMs()
      let reason = 'the server ended the stream'
      try {
        await streamOnce()
      } catch (error) {
        reason = reasonOf(error)
      }
      if (stopped.signal.aborted) return
      const waitMs = waitAfter(clock.monotonicMs() - startMs)
      reporter.interrupted(reason, waitMs)
      await pause(waitMs, stopped.signal)
    }
  }

  return {
    start() {
      running = run()
      if (lastGoodFile === undefined) return
      patience = setTimeout(() => void useLastGood(session, lastGoodFile, options.log), lastGoodPatienceMs)
    },
    async stop() {
      clearTimeout(patience)
      stopped.abort()
      refusals.cancel()
      await running
      connection.close()
      await lastGoodFile?.close()
    },
  }
}

/** Encodes the active response without its nonce, which belongs to one stream. */
function withoutNonce({ versionInfo, typeUrl, resources }: DiscoveryResponse): Uint8Array {
  return toBinary(
    DiscoveryResponseSchema,
    create(DiscoveryResponseSchema, { versionInfo, typeUrl, resources }),
  )
}

async function useLastGood(session: DiscoverySession, file: LastGoodFile, log: Log): Promise<void> {
  if (session.isConfigured()) return
  const found = file.read()
  if (found === undefined) return
  const { path } = file
  try {
    const problems = await session.adopt(fromBinary(DiscoveryResponseSchema, found.content))
    if (problems === undefined) return
    const [problem] = problems
    if (problem !== undefined) throw new Error(problem)
    const ageSeconds = Math.round(found.ageMs / 1000)
    log.warn('the management server sent no configuration: use the last good one', { path, ageSeconds })
  } catch (error) {
    log.warn('use the last good configuration: failed', { path, reason: (error as Error).message })
  }
}

/** Logs each new reason for an interruption once, and its end: a server can be away for days. */
function createReporter({ connection: { server }, log }: XdsFeedOptions) {
  let lastReason: string | undefined
  return {
    interrupted(reason: string, waitMs: number): void {
      if (waitMs === 0) {
        log.info('open the stream to the management server again', { server, reason })
        return
      }
      const level = reason === lastReason ? 'debug' : 'warn'
      lastReason = reason
      log[level]('no connection to the management server', { server, reason, retryMs: Math.round(waitMs) })
    },
    connected(): void {
      if (lastReason !== undefined) log.info('connected to the management server', { server })
      lastReason = undefined
    },
  }
}

/** The message of grpc-js for a connection that the server closed with the code ENHANCE_YOUR_CALM. */
const calmMessage = 'Bandwidth exhausted or memory limit exceeded'

/** Extracts the system's error from the message of grpc-js, which adds sentences about its resolver. */
function reasonOf(error: unknown): string {
  const { message } = error as Error
  if (message === calmMessage) return 'the server closed the connection with ENHANCE_YOUR_CALM'
  return /Last error: (?:Error: )?(.*?)\.? Resolution note:/.exec(message)?.[1] || message
}

/** Resolves after `waitMs`, or when the signal is aborted. */
function pause(waitMs: number, signal: AbortSignal): Promise<void> {
  return sleep(waitMs, undefined, { signal }).catch(() => {})
}
