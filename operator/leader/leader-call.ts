import { setTimeout as sleep } from 'node:timers/promises'
import { type BackoffOptions, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { createGrpcClient, type GrpcClient } from '@tollway/grpc/client/client.ts'
import type { ClientTls } from '@tollway/grpc/client/client-tls.ts'

/** Keeps one call open to the operator that has the Lease. */
export interface LeaderCall {
  /**
   * Sets the address of the leader, `host:port`; undefined for none, as at the leader itself. The same
   * address again changes nothing.
   */
  setLeader(address: string | undefined): void
  stop(): Promise<void>
}

export interface LeaderCallOptions {
  /** Shows the operators' certificate, and requires it. */
  readonly tls: ClientTls
  readonly log: Log
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** Called after each failed attempt, because the leader may have stopped. */
  readonly onUnreachable?: (() => void) | undefined
  /** The subject of the reports, for the log: `what its clients acknowledged`. */
  readonly what: string
  /** The waits between attempts to reach the leader. */
  readonly backoff?: Pick<BackoffOptions, 'initialMs' | 'maxMs'>
}

/** Operators permit pings to each other. A leader that has stopped or disappeared is noticed within 6 s. */
const keepaliveMs = 2_000
const keepaliveTimeoutMs = 4_000

const defaultBackoff = { initialMs: 200, maxMs: 5_000 } as const

/**
 * @param callOnce makes one call, and rejects with the reason when it has ended; it calls `onReceived` when
 *   the call works, which resets the delays between calls.
 */
export function createLeaderCall(
  options: LeaderCallOptions,
  callOnce: (client: GrpcClient, signal: AbortSignal, onReceived: () => void) => Promise<void>,
): LeaderCall {
  let address: string | undefined
  let stopping = new AbortController()
  let running: Promise<void> = Promise.resolve()

  return {
    setLeader(next) {
      if (next === address) return
      address = next
      stopping.abort()
      stopping = new AbortController()
      const { signal } = stopping
      const before = running
      running = before.then(() => (next === undefined ? undefined : keepCalling(next, signal)))
    },
    async stop() {
      stopping.abort()
      await running
    },
  }

  /** Calls again and again until the signal is aborted. Never rejects. */
  async function keepCalling(leader: string, signal: AbortSignal): Promise<void> {
    const { tls, log, random, what } = options
    const backoff = createBackoff({ ...(options.backoff ?? defaultBackoff), factor: 2, jitter: 0.5, random })
    let reported = ''
    let client: GrpcClient | undefined
    while (!signal.aborted) {
      try {
        client ??= createGrpcClient(leader, { tls, keepaliveMs, keepaliveTimeoutMs, log })
        await callOnce(client, signal, () => {
          if (reported !== 'reporting') log.info('reporting to the leader', { leader, what })
          reported = 'reporting'
          backoff.reset()
        })
      } catch (error) {
        const reason = (error as Error).message
        if (reason !== reported && !signal.aborted)
          log.warn('report to the leader: failed', { leader, what, reason })
        reported = reason
        if (!signal.aborted) options.onUnreachable?.()
      }
      await wait(backoff.nextMs(), signal)
    }
    client?.close()
  }
}

/** Resolves after the time, or when the signal is aborted. */
export function wait(ms: number, signal: AbortSignal): Promise<void> {
  return sleep(ms, undefined, { signal }).catch(() => {})
}
