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
  /** Presents the certificate of operators, and requires it of the leader. */
  readonly tls: ClientTls
  readonly log: Log
  readonly random: () => number
  /** Called when a call of `keepCalling` has failed: the leader may have stopped. */
  readonly onUnreachable?: () => void
  /** The delays before a failed call of `keepCalling` is repeated. */
  readonly backoff?: Pick<BackoffOptions, 'initialMs' | 'maxMs'>
}

interface Leader {
  /** The client for queries and reports. */
  readonly client: GrpcClient
  /**
   * The client for sessions, on another connection: a server limits the calls of a connection, and the
   * sessions of many processes must not keep queries and reports waiting.
   */
  readonly sessionClient: GrpcClient
  /** Aborted when another operator becomes the leader. */
  readonly signal: AbortSignal
}

/**
 * Makes one call, and calls `onWorking` when the leader has answered. Rejects with the reason when the call
 * has ended.
 */
type LeaderCall = (client: GrpcClient, signal: AbortSignal, onWorking: () => void) => Promise<void>

/**
 * A ping is sent every 2 s, and must be answered within 4 s: a leader that hangs or has disappeared is
 * noticed within 6 s. The servers of operators permit such frequent pings.
 */
const keepaliveMs = 2_000
const keepaliveTimeoutMs = 4_000
/** The maximum size of an answer. The largest is a page of rules, with the totals of each pod. */
const maxReceiveBytes = 64 * 1024 * 1024
const defaultBackoff = { initialMs: 200, maxMs: 5_000 }
/**
 * The delay after UNIMPLEMENTED. It can be long: a leader of an earlier version never knows the call, and the
 * address changes when the leader is replaced.
 */
const unimplementedMs = 60_000

/** The connection to the operator with the Lease, if that is another operator than this one. */
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
   * Sets the address of the leader, `host:port`; undefined if this operator has the Lease, or knows no
   * leader. The same address again changes nothing.
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

  onChange(listener: () => void): void {
    this.#listeners.push(listener)
  }

  /**
   * Keeps a call open to the present leader, and repeats it after a failure or a change of the leader. The
   * returned function stops this, and resolves when the call has ended.
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
      if (isStopped || this.#address === undefined) return
      // The client is created in the call, whose failures are repeated: a new operator has no certificate yet.
      call = this.#createCall(what, async (signal, onWorking) => {
        const leader = this.current()
        if (leader !== undefined) await callOnce(leader.client, signal, onWorking)
      })
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
  // The loop below ends with the same error, and handles it.
  sent.catch(() => {})
  try {
    yield* call.messages
  } catch (error) {
    const { message } = error as Error
    if (findStatusCode(error) === statusCodes.UNIMPLEMENTED) onUnimplemented(leader, message)
    // UNAVAILABLE makes the process connect again. By then another operator may be the leader.
    throw new GrpcError('UNAVAILABLE', `the operator with the Lease: ${message}`)
  }
}
