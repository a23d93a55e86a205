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
import { DiscoverySession, type DiscoverySessionOptions } from './discovery-session.ts'
import type { FeedConnection } from './feed-connection.ts'
import type { LastGoodFile } from './last-good-file.ts'

const discoveryPath = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources'
const discoveryCodec = {
  encode: (message: MessageInitShape<typeof DiscoveryRequestSchema>) =>
    toBinary(DiscoveryRequestSchema, create(DiscoveryRequestSchema, message)),
  decode: (bytes: Uint8Array) => fromBinary(DiscoveryResponseSchema, bytes),
}

interface XdsFeedOptions extends DiscoverySessionOptions {
  /** The connection of the feed, which `stop` closes. */
  readonly connection: FeedConnection
  /** Stores every good configuration, for a start without the management server. */
  readonly lastGoodFile?: LastGoodFile | undefined
  /** The stored configuration is loaded if none has arrived after this time. Defaults to 1,000. */
  readonly lastGoodPatienceMs?: number | undefined
  /** The delay between attempts to connect until the first response. */
  readonly connectRetryMs: number
  /**
   * The delays between streams. A stream that lasted at least 10 s and the delay is opened again at once.
   * After such a stream, and after a good response, the first delay applies again.
   */
  readonly backoff: {
    readonly initialMs: number
    readonly maxMs: number
    readonly factor: number
    readonly jitter: number
  }
  /** Returns a number uniform in [0, 1). */
  readonly random: () => number
  readonly clock: Clock
  /** The shortest time between two rejections that are sent. Defaults to 500. */
  readonly rejectionIntervalMs?: number | undefined
}

/**
 * Slows down servers that compare only versions, such as go-control-plane: they answer a rejection at once
 * with the same response, and send a corrected one only in answer to the next rejection. It delays a
 * correction by at most this time.
 */
const defaultRejectionIntervalMs = 500

/** A stream that lasted longer counts as established: an attempt to connect would have failed sooner. */
const establishedMs = 10_000

/**
 * This time is short, since callers get errors meanwhile, and long enough for the answer of a running
 * management server.
 */
const defaultLastGoodPatienceMs = 1_000

/** A client of an xDS feed in the State of the World variant: each response has all resources. */
export class XdsFeed {
  readonly #options: XdsFeedOptions
  readonly #stream: ReconnectingCall
  readonly #rejections: RejectionSender
  readonly #session: DiscoverySession
  /** True from the log line of a failure until the next response. */
  #isInterrupted = false
  #hadResponse = false
  #patience: NodeJS.Timeout | undefined

  constructor(options: XdsFeedOptions) {
    const { connectRetryMs, random, clock } = options
    const backoff = createBackoff({ ...options.backoff, random })
    this.#options = options
    this.#rejections = new RejectionSender(options.rejectionIntervalMs ?? defaultRejectionIntervalMs, clock)
    this.#session = new DiscoverySession(options)
    this.#stream = new ReconnectingCall({
      callOnce: (signal, onWorking) => this.#streamOnce(signal, onWorking),
      backoff: { ...backoff, nextMs: () => (this.#hadResponse ? backoff.nextMs() : connectRetryMs) },
      establishedMs,
      // The next stream begins at once, as when a server was replaced.
      reopensAtOnce: true,
      onState: state => this.#logState(state),
      clock,
    })
  }

  /** Opens the stream again whenever it ends. If no configuration arrives in time, loads the stored one. */
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

  /** Logs a reason as a warning only once in a row, since a server can be unavailable for days. */
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

/** Removes the nonce, which is valid only in its stream. */
function withoutNonce({ versionInfo, typeUrl, resources }: DiscoveryResponse): Uint8Array {
  return toBinary(
    DiscoveryResponseSchema,
    create(DiscoveryResponseSchema, { versionInfo, typeUrl, resources }),
  )
}

async function useLastGood(session: DiscoverySession, file: LastGoodFile, log: Log): Promise<void> {
  if (session.isConfigured) return
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

/** Sends at most one rejection in each interval. */
class RejectionSender {
  readonly #rate: RateLimiter
  #waiting: { send: () => void; readonly timer: NodeJS.Timeout; readonly over: () => void } | undefined
  #over = Promise.resolve()

  constructor(intervalMs: number, clock: Clock) {
    this.#rate = new RateLimiter({ perSecond: 1_000 / intervalMs, burst: 1 }, clock)
  }

  /**
   * Sends a rejection now, or when the interval has passed; a new rejection replaces one that waits. Resolves
   * when the next response may be read: at once if no rejection was waiting, so that a correction can be
   * read; otherwise when the waiting one is sent, which slows down a server that does not wait for answers.
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

  /** Drops the waiting rejection: a later response was good, or the stream has ended. */
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

/** The message of grpc-js when the server has closed the connection with ENHANCE_YOUR_CALM. */
const calmMessage = 'Bandwidth exhausted or memory limit exceeded'

/** Returns the error of the system, without the sentences of grpc-js about name resolution around it. */
function describeReason(error: unknown): string {
  const { message } = error as Error
  if (message === calmMessage) return 'the server closed the connection with ENHANCE_YOUR_CALM'
  return /Last error: (?:Error: )?(.*?)\.? Resolution note:/.exec(message)?.[1] || message
}
