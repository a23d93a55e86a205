import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import { RateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { type CallState, ReconnectingCall } from '@tollway/grpc/client/reconnecting-call.ts'
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

const discoveryPath = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources'
const discoveryCodec = {
  encode: (message: MessageInitShape<typeof DiscoveryRequestSchema>) =>
    toBinary(DiscoveryRequestSchema, create(DiscoveryRequestSchema, message)),
  decode: (bytes: Uint8Array) => fromBinary(DiscoveryResponseSchema, bytes),
}

export interface XdsFeedOptions extends DiscoverySessionOptions {
  /** Closed with the feed. */
  readonly connection: FeedConnection
  /** Stores every good configuration, for a start without the management server. */
  readonly lastGoodFile?: LastGoodFile | undefined
  /** The time without any configuration after which the last good one is used. Defaults to 1,000. */
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
  /** The shortest time between two rejections. Defaults to 500. */
  readonly rejectionIntervalMs?: number | undefined
}

/**
 * Servers that compare only versions, such as go-control-plane, answer a rejection with the same response at
 * once, and send a fix only in answer to the next rejection. Rejections are therefore delayed to bound that loop,
 * and a fix is active within this time with such a server.
 */
const defaultRejectionIntervalMs = 500

/** An attempt to connect fails sooner, so a stream that lasted this long was established. */
const establishedMs = 10_000

/** Callers get errors until then; a running management server has answered before. */
const defaultLastGoodPatienceMs = 1_000

/** A client of the State of the World feed of any management server. */
export class XdsFeed {
  readonly #options: XdsFeedOptions
  readonly #stream: ReconnectingCall
  readonly #rejections: RejectionSender
  readonly #session: DiscoverySession
  /** Whether a failure was logged, and no response received since. */
  #isInterrupted = false
  #hadResponse = false
  #patience: NodeJS.Timeout | undefined

  constructor(options: XdsFeedOptions) {
    const { connectRetryMs, random, clock } = options
    const backoff = createBackoff({ ...options.backoff, random })
    this.#options = options
    this.#rejections = new RejectionSender(options.rejectionIntervalMs ?? defaultRejectionIntervalMs, clock)
    this.#session = createDiscoverySession(options)
    this.#stream = new ReconnectingCall({
      callOnce: (signal, onWorking) => this.#streamOnce(signal, onWorking),
      backoff: { ...backoff, nextMs: () => (this.#hadResponse ? backoff.nextMs() : connectRetryMs) },
      establishedMs,
      // As when a server is replaced.
      reopensAtOnce: true,
      onState: state => this.#logState(state),
      clock,
    })
  }

  /** Opens the stream, and opens it again after each end. */
  start(): void {
    const { lastGoodFile, lastGoodPatienceMs = defaultLastGoodPatienceMs, log } = this.#options
    this.#stream.start()
    if (lastGoodFile === undefined) return
    const useLater = () => void useLastGood(this.#session, lastGoodFile, log)
    this.#patience = setTimeout(useLater, lastGoodPatienceMs)
  }

  async stop(): Promise<void> {
    clearTimeout(this.#patience)
    const stopped = this.#stream.stop()
    this.#rejections.cancel()
    await stopped
    this.#options.connection.close()
    await this.#options.lastGoodFile?.close()
  }

  async #streamOnce(signal: AbortSignal, onWorking: () => void): Promise<void> {
    const stream = this.#options.connection.client().bidi(discoveryPath, discoveryCodec, { signal })
    stream.write(this.#session.firstRequest())
    try {
      for await (const response of stream.messages) {
        if (signal.aborted) return
        this.#logResponse()
        const { request, verdict } = await this.#session.answer(response)
        if (verdict === 'rejected') await this.#rejections.send(() => stream.write(request))
        else {
          this.#rejections.cancel()
          onWorking()
          this.#options.lastGoodFile?.store(withoutNonce(response))
          stream.write(request)
        }
      }
    } finally {
      this.#rejections.cancel()
    }
  }

  #logResponse(): void {
    const { connection, log } = this.#options
    this.#hadResponse = true
    if (this.#isInterrupted) log.info('connect to management server', { server: connection.server })
    this.#isInterrupted = false
  }

  /** Logs each new reason for an interruption once: a server can be unavailable for days. */
  #logState(state: CallState): void {
    if (state.kind === 'working') return
    const { connection, log } = this.#options
    const { server } = connection
    const reason = describeReason(state.error)
    if (state.retryMs === 0) {
      log.info('reopen stream to management server', { server, reason })
      return
    }
    const level = state.isRepeated && this.#isInterrupted ? 'debug' : 'warn'
    this.#isInterrupted = true
    const retryMs = Math.round(state.retryMs)
    log[level]('connect to management server failed', { server, reason, retryMs })
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
    log.warn('load last good configuration', { path, ageSeconds })
  } catch (error) {
    log.warn('load last good configuration failed', { path, reason: (error as Error).message })
  }
}

/** Sends the rejections of a feed, at most one per interval. */
class RejectionSender {
  readonly #rate: RateLimiter
  #waiting: { send: () => void; readonly timer: NodeJS.Timeout; readonly over: () => void } | undefined
  #over = Promise.resolve()

  constructor(intervalMs: number, clock: Clock) {
    this.#rate = new RateLimiter({ perSecond: 1_000 / intervalMs, burst: 1 }, clock)
  }

  /**
   * Sends now, or when the interval since the last rejection has passed; a rejection that still waits is
   * replaced. Resolves when the next response may be read: at once, unless a rejection was already waiting. A
   * fix is therefore read while a rejection waits, and a server that does not wait for answers is slowed down.
   */
  send(send: () => void): Promise<void> {
    if (this.#waiting !== undefined) {
      this.#waiting.send = send
      return this.#over
    }
    const waitMs = this.#rate.waitMs()
    if (waitMs === 0) this.#sendNow(send)
    else {
      const { promise, resolve: over } = Promise.withResolvers<void>()
      this.#over = promise
      this.#waiting = { send, timer: setTimeout(() => this.#sendWaiting(), waitMs), over }
    }
    return Promise.resolve()
  }

  /** Drops the waiting rejection: a later response was good, or its stream has ended. */
  cancel(): void {
    clearTimeout(this.#waiting?.timer)
    this.#waiting?.over()
    this.#waiting = undefined
  }

  #sendNow(send: () => void): void {
    this.#rate.reserve()
    send()
  }

  #sendWaiting(): void {
    if (this.#waiting !== undefined) this.#sendNow(this.#waiting.send)
    this.cancel()
  }
}

/** The message of grpc-js for a connection that the server closed with the code ENHANCE_YOUR_CALM. */
const calmMessage = 'Bandwidth exhausted or memory limit exceeded'

/** Extracts the system's error from the message of grpc-js, which adds sentences about its resolver. */
function describeReason(error: unknown): string {
  const { message } = error as Error
  if (message === calmMessage) return 'the server closed the connection with ENHANCE_YOUR_CALM'
  return /Last error: (?:Error: )?(.*?)\.? Resolution note:/.exec(message)?.[1] || message
}
