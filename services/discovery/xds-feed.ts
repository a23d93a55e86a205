import { setTimeout as sleep } from 'node:timers/promises'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { type Backoff, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import { RateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
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

/** A client of the State of the World feed of any management server. */
export class XdsFeed {
  readonly #options: XdsFeedOptions
  readonly #backoff: Backoff
  readonly #refusals: RefusalSender
  readonly #session: DiscoverySession
  readonly #interruptions: InterruptionLog
  readonly #stopped = new AbortController()
  #hadResponse = false
  #running: Promise<void> = Promise.resolve()
  #patience: NodeJS.Timeout | undefined

  constructor(options: XdsFeedOptions) {
    this.#options = options
    this.#backoff = createBackoff({ ...options.backoff, random: options.random })
    this.#refusals = new RefusalSender(options.refusalIntervalMs ?? defaultRefusalIntervalMs, options.clock)
    this.#session = createDiscoverySession(options)
    this.#interruptions = new InterruptionLog(options.connection.server, options.log)
  }

  /** Opens the stream, and opens it again after each end. */
  start(): void {
    const { lastGoodFile, lastGoodPatienceMs = defaultLastGoodPatienceMs, log } = this.#options
    this.#running = this.#run()
    if (lastGoodFile === undefined) return
    const useLater = () => void useLastGood(this.#session, lastGoodFile, log)
    this.#patience = setTimeout(useLater, lastGoodPatienceMs)
  }

  async stop(): Promise<void> {
    clearTimeout(this.#patience)
    this.#stopped.abort()
    this.#refusals.cancel()
    await this.#running
    this.#options.connection.close()
    await this.#options.lastGoodFile?.close()
  }

  async #run(): Promise<void> {
    const { clock } = this.#options
    const { signal } = this.#stopped
    while (!signal.aborted) {
      const startMs = clock.monotonicMs()
      let reason = 'the server ended the stream'
      try {
        await this.#streamOnce()
      } catch (error) {
        reason = reasonOf(error)
      }
      if (signal.aborted) return
      const waitMs = this.#waitAfter(clock.monotonicMs() - startMs)
      this.#interruptions.began(reason, waitMs)
      await pause(waitMs, signal)
    }
  }

  async #streamOnce(): Promise<void> {
    const { signal } = this.#stopped
    const stream = this.#options.connection.client().bidi(discoveryPath, discoveryCodec, { signal })
    stream.write(this.#session.firstRequest())
    try {
      for await (const response of stream.messages) {
        if (signal.aborted) return
        this.#hadResponse = true
        this.#interruptions.ended()
        const { request, verdict } = await this.#session.answer(response)
        if (verdict === 'refused') await this.#refusals.send(() => stream.write(request))
        else {
          this.#refusals.cancel()
          this.#backoff.reset()
          this.#options.lastGoodFile?.keep(withoutNonce(response))
          stream.write(request)
        }
      }
    } finally {
      this.#refusals.cancel()
    }
  }

  /** Returns the delay before the next stream; 0 after a long-lived stream, as when a server is replaced. */
  #waitAfter(lastedMs: number): number {
    const waitMs = this.#hadResponse ? this.#backoff.nextMs() : this.#options.connectRetryMs
    if (lastedMs < Math.max(waitMs, establishedMs)) return waitMs
    this.#backoff.reset()
    return 0
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

/** Sends the refusals of a feed, at most one per interval. */
class RefusalSender {
  readonly #rate: RateLimiter
  #waiting: { send: () => void; readonly timer: NodeJS.Timeout; readonly over: () => void } | undefined
  #over = Promise.resolve()

  constructor(intervalMs: number, clock: Clock) {
    this.#rate = new RateLimiter({ perSecond: 1_000 / intervalMs, burst: 1 }, clock)
  }

  /**
   * Sends now, or when the interval since the last refusal has passed; a refusal that still waits is
   * replaced. Resolves when the next response may be read: at once, unless a refusal was already waiting. A
   * fix is therefore read while a refusal waits, and a server that does not wait for answers is slowed down.
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

  /** Drops the waiting refusal: a later response was good, or its stream has ended. */
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

/** Logs each new reason for an interruption once, and its end: a server can be away for days. */
class InterruptionLog {
  readonly #server: string
  readonly #log: Log
  #lastReason: string | undefined

  constructor(server: string, log: Log) {
    this.#server = server
    this.#log = log
  }

  began(reason: string, waitMs: number): void {
    const server = this.#server
    if (waitMs === 0) {
      this.#log.info('open the stream to the management server again', { server, reason })
      return
    }
    const level = reason === this.#lastReason ? 'debug' : 'warn'
    this.#lastReason = reason
    this.#log[level]('no connection to the management server', {
      server,
      reason,
      retryMs: Math.round(waitMs),
    })
  }

  ended(): void {
    if (this.#lastReason === undefined) return
    this.#lastReason = undefined
    this.#log.info('connected to the management server', { server: this.#server })
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
