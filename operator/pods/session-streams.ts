import type { Clock } from '@tollway/chassis/clock.ts'
import { RateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { WakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import { AsyncQueue } from '@tollway/grpc/async-queue.ts'
import type { Call } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { Hello, ReceivingSession, SessionKind, SessionLimits, SessionRegistry } from './session-table.ts'

/**
 * Returns the name of the process that has sent this Hello; undefined if the process may not have a session.
 * The uid in the Hello proves the identity, since only the process and the infrastructure know it.
 */
export type Admit = (hello: Hello) => string | undefined

interface SessionStreamsOptions<
  Greeting extends Hello,
  Report,
  Request,
  Session extends ReceivingSession<Report>,
> {
  readonly kind: SessionKind<Greeting, Report, Request, Session>
  readonly registry: SessionRegistry<Session>
  readonly admit: Admit
  readonly limits: SessionLimits
  readonly clock: Clock
  readonly log: Log
}

const maxNameChars = 253
/**
 * At most this many rejected uids are remembered, so that each is logged once: a process tries again every
 * few seconds.
 */
const maxLogged = 100

export class SessionStreams<
  Greeting extends Hello,
  Report,
  Request,
  Session extends ReceivingSession<Report>,
> {
  readonly #options: SessionStreamsOptions<Greeting, Report, Request, Session>
  readonly #rejected = new Set<string>()
  #open = 0
  /** The number of streams that have not sent a Hello yet. */
  #unnamed = 0

  constructor(options: SessionStreamsOptions<Greeting, Report, Request, Session>) {
    this.#options = options
  }

  /** Serves one stream until either side ends it. */
  async *serve(reports: AsyncIterable<Uint8Array>, call: Call): AsyncGenerator<Uint8Array> {
    const { kind, registry, limits } = this.#options
    this.#checkRoom()
    const outbox = new AsyncQueue<Request>()
    let waiting = 0
    const send = (request: Request) => {
      waiting += 1
      if (waiting > limits.maxWaiting) outbox.end(exhausted('the process does not read'))
      else outbox.put(request)
    }
    const onAbort = () => outbox.end()
    call.signal.addEventListener('abort', onAbort)
    this.#open += 1
    const greeting = this.#awaitHello(outbox.end)
    let session: Session | undefined
    const receive = (bytes: Uint8Array) => {
      const report = kind.decode(bytes)
      if (session !== undefined) return session.receive(report)
      const hello = this.#admit(kind.readHello(report))
      greeting.end()
      const opened = kind.open(hello, send)
      registry.open(opened, outbox.end)
      session = opened
    }
    void this.#receiveAll(reports, receive, outbox.end, call.signal)
    try {
      for await (const request of outbox.items) {
        waiting -= 1
        yield kind.encode(request)
      }
    } finally {
      this.#open -= 1
      greeting.end()
      call.signal.removeEventListener('abort', onAbort)
      if (session !== undefined) registry.close(session)
    }
  }

  /** @throws GrpcError RESOURCE_EXHAUSTED */
  #checkRoom(): void {
    const { kind, limits, log } = this.#options
    const { maxSessions, maxUnnamed } = limits
    if (this.#open < maxSessions && this.#unnamed < maxUnnamed) return
    log.warn('reject session', { process: kind.name, reason: 'too many sessions', maxSessions, maxUnnamed })
    throw exhausted(`there are ${this.#open} sessions, ${this.#unnamed} of them without a Hello`)
  }

  /** Ends a stream that sends no Hello in time, since it would keep one of the `maxUnnamed` places. */
  #awaitHello(end: (error: GrpcError) => void) {
    const { helloMs } = this.#options.limits
    const error = new GrpcError('DEADLINE_EXCEEDED', `there was no Hello within ${helloMs} ms`)
    let timer: NodeJS.Timeout | undefined = setTimeout(end, helloMs, error).unref()
    this.#unnamed += 1
    return {
      end: () => {
        if (timer === undefined) return
        clearTimeout(timer)
        timer = undefined
        this.#unnamed -= 1
      },
    }
  }

  /** Returns the Hello with the name by which the infrastructure knows the process. */
  #admit(hello: Greeting): Greeting {
    const { kind, admit, log } = this.#options
    checkNames(hello)
    const { uid } = hello
    const pod = admit(hello)
    if (pod === undefined) {
      if (!this.#rejected.has(uid) && this.#rejected.size < maxLogged) {
        this.#rejected.add(uid)
        const reason = 'no such process runs here'
        log.warn('reject session', { process: kind.name, reason, uid, pod: hello.pod })
      }
      // UNAVAILABLE lets the process try again: the infrastructure may not know one that has just started.
      throw new GrpcError('UNAVAILABLE', `uid: no ${kind.name} with this uid runs here`)
    }
    return { ...hello, pod }
  }

  async #receiveAll(
    reports: AsyncIterable<Uint8Array>,
    receive: (bytes: Uint8Array) => void,
    end: (error?: Error) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { kind, limits, clock, log } = this.#options
    const waitAfter = limitReading(limits.pace, clock)
    const pause = new WakeablePause()
    let isSlowed = false
    try {
      for await (const bytes of reports) {
        receive(bytes)
        const waitMs = waitAfter(bytes.length)
        if (waitMs === 0) continue
        if (!isSlowed)
          log.warn('slow down session', { process: kind.name, reason: 'too many reports', waitMs })
        isSlowed = true
        await pause.wait(waitMs, signal)
      }
      end()
    } catch (error) {
      end(error as Error)
    }
  }
}

/**
 * Returns a function that counts one report of the given bytes, and returns how many milliseconds to wait
 * before the next one is read. Unread reports close the flow-control window of their stream, so that a sender
 * with too many reports takes neither memory nor time from others.
 */
export function limitReading(
  { reportsPerSecond, bytesPerSecond, burstSeconds }: SessionLimits['pace'],
  clock: Pick<Clock, 'monotonicMs'>,
): (bytes: number) => number {
  // A token stands for one second at the permitted pace.
  const seconds = new RateLimiter({ perSecond: 1, burst: burstSeconds }, clock)
  return bytes => seconds.reserve(Math.max(1 / reportsPerSecond, bytes / bytesPerSecond))
}

/** @throws GrpcError INVALID_ARGUMENT */
function checkNames({ uid, pod, namespace }: Hello): void {
  const areNames = [uid, pod, namespace].every(isName)
  if (uid !== '' && areNames) return
  const allowed = `1 to ${maxNameChars} printable characters`
  throw new GrpcError('INVALID_ARGUMENT', `uid: must have ${allowed}; pod and namespace may be empty`)
}

const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u
const isName = (text: string) => text.length <= maxNameChars && !unprintable.test(text)

const exhausted = (message: string) => new GrpcError('RESOURCE_EXHAUSTED', message)
