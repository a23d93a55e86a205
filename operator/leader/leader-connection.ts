import { type BackoffOptions, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { createGrpcClient, type GrpcClient } from '@tollway/grpc/client/client.ts'
import type { ClientTls } from '@tollway/grpc/client/client-tls.ts'
import {
  findStatusCode,
  ReconnectingCall,
  type ReconnectingCallOptions,
} from '@tollway/grpc/client/reconnecting-call.ts'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import { encodedCodec, type Reports, type SessionRelay } from '../pods/session-table.ts'
import { leaderPath } from './leader-service.ts'

interface LeaderConnectionOptions {
  /** Shows the operators' certificate, and requires it. */
  readonly tls: ClientTls
  readonly log: Log
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** Called when a call that is kept open has failed: the leader may have stopped. */
  readonly onUnreachable?: () => void
  /** The delays of calls that are kept open. */
  readonly backoff?: Pick<BackoffOptions, 'initialMs' | 'maxMs'>
}

/** The operator with the Lease. */
interface Leader {
  /** For queries and reports. */
  readonly client: GrpcClient
  /**
   * For sessions, on another connection: a server limits the calls of a connection, and the sessions of many
   * processes must not keep queries and reports waiting.
   */
  readonly sessionClient: GrpcClient
  /** Aborted when another operator becomes the leader. */
  readonly signal: AbortSignal
}

/**
 * Makes one call, and rejects with the reason when it has ended. It calls `onWorking` when the leader has
 * answered.
 */
type LeaderCall = (client: GrpcClient, signal: AbortSignal, onWorking: () => void) => Promise<void>

/** Operators permit pings to each other. A leader that has stopped or disappeared is noticed within 6 s. */
const keepaliveMs = 2_000
const keepaliveTimeoutMs = 4_000
/** A page of rules has the totals of each pod. */
const maxReceiveBytes = 64 * 1024 * 1024
const defaultBackoff = { initialMs: 200, maxMs: 5_000 }
/** A leader of an earlier version does not know the call until it is replaced, and then the address changes. */
const unimplementedMs = 60_000

/** The connection of an operator to the one with the Lease, while that is another one. */
export class LeaderConnection {
  readonly #options: LeaderConnectionOptions
  readonly #listeners: (() => void)[] = []
  #address: string | undefined
  #leader: Leader | undefined
  #changed = new AbortController()

  constructor(options: LeaderConnectionOptions) {
    this.#options = options
  }

  /**
   * Sets the address of the leader, `host:port`; undefined if this operator has the Lease, or knows no other.
   * The same address again changes nothing.
   */
  setLeader(address: string | undefined): void {
    if (address === this.#address) return
    this.#address = address
    this.#leader?.client.close()
    this.#leader?.sessionClient.close()
    this.#leader = undefined
    this.#changed.abort()
    this.#changed = new AbortController()
    for (const listener of this.#listeners) listener()
  }

  /** Returns the leader; undefined while this operator answers itself. */
  current(): Leader | undefined {
    const address = this.#address
    if (address === undefined) return undefined
    const { tls, log } = this.#options
    const options = { tls, keepaliveMs, keepaliveTimeoutMs, maxReceiveBytes, log }
    this.#leader ??= {
      client: createGrpcClient(address, options),
      sessionClient: createGrpcClient(address, options),
      signal: this.#changed.signal,
    }
    return this.#leader
  }

  /** Adds a listener that is called after each change of the leader. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener)
  }

  /**
   * Keeps a call open to whichever operator is the leader, until the returned function is called, which
   * resolves when the call has ended.
   *
   * @param what the purpose of the call, for the log: `acknowledgements`
   */
  keepCalling(what: string, callOnce: LeaderCall): () => Promise<void> {
    let call: ReconnectingCall | undefined
    let ended = Promise.resolve()
    let isStopped = false
    const restart = () => {
      const before = call
      call = undefined
      ended = ended.then(() => before?.stop())
      const leader = isStopped ? undefined : this.current()
      if (leader === undefined) return
      call = this.#createCall(what, (signal, onWorking) => callOnce(leader.client, signal, onWorking))
      call.start()
    }
    this.onChange(restart)
    restart()
    return () => {
      isStopped = true
      restart()
      return ended
    }
  }

  /** Passes sessions on to the leader by this method of LeaderService. */
  relay(method: 'PassRateLimitSession' | 'PassBrokerSession'): SessionRelay {
    const path = leaderPath(method)
    let warned: Leader | undefined
    const onUnimplemented = (leader: Leader, reason: string) => {
      if (warned === leader) return
      warned = leader
      this.#options.log.warn('pass session failed', { method, reason })
    }
    return {
      current: () => {
        const leader = this.current()
        return leader && ((reports, signal) => passOn(leader, path, reports, signal, onUnimplemented))
      },
      onChange: listener => this.onChange(listener),
    }
  }

  stop(): void {
    this.setLeader(undefined)
  }

  #createCall(what: string, callOnce: ReconnectingCallOptions['callOnce']): ReconnectingCall {
    const { log, random, onUnreachable = () => {}, backoff = defaultBackoff } = this.#options
    const leader = this.#address
    return new ReconnectingCall({
      callOnce,
      backoff: createBackoff({ ...backoff, factor: 2, jitter: 0.5, random }),
      unimplementedMs,
      onState(state) {
        if (state.kind === 'working') {
          log.info('report to the leader', { leader, what })
          return
        }
        const { error, isRepeated } = state
        if (!isRepeated) log.warn('report to the leader failed', { leader, what, reason: error.message })
        if (findStatusCode(error) !== statusCodes.UNIMPLEMENTED) onUnreachable()
      },
    })
  }
}

/** Passes a session on in both directions, until either side ends it. Every failure is UNAVAILABLE. */
async function* passOn(
  leader: Leader,
  path: string,
  reports: Reports,
  signal: AbortSignal,
  onUnimplemented: (leader: Leader, reason: string) => void,
): AsyncGenerator<Uint8Array> {
  const either = AbortSignal.any([signal, leader.signal])
  const call = leader.sessionClient.bidi(path, encodedCodec, { signal: either })
  const sent = (async () => {
    for await (const report of reports) await call.write(report)
    call.end()
  })()
  // The end of the messages below reports it.
  sent.catch(() => {})
  try {
    yield* call.messages
  } catch (error) {
    const { message } = error as Error
    if (findStatusCode(error) === statusCodes.UNIMPLEMENTED) onUnimplemented(leader, message)
    // The process connects again, and by then the leader may be another one.
    throw new GrpcError('UNAVAILABLE', `the operator with the Lease: ${message}`)
  }
}
