import { setTimeout as sleep } from 'node:timers/promises'
import { type BackoffOptions, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log.ts'
import { createWakeablePause, type WakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import { type BidiCall, createGrpcClient, type GrpcClient } from '@tollway/grpc/client.ts'
import type { ClientTls } from '@tollway/grpc/client-tls.ts'
import type { Feed } from '../server.ts'
import { type AgedReport, reporterCodec, reportPath } from './report-codec.ts'
import { createReportWriter } from './report-writer.ts'

/** Tells the operator that has the Lease what the clients of this one enforce. */
export interface PeerReporter {
  /**
   * Where to report from now on, `host:port`; undefined for nowhere, as for who has the Lease itself. The
   * same again changes nothing.
   */
  setLeader(address: string | undefined): void
  stop(): Promise<void>
}

export interface PeerReporterOptions {
  readonly feed: Pick<Feed, 'standings' | 'onChange'>
  /** Shows the operators' certificate, and asks for it. */
  readonly tls: ClientTls
  /** Unique to this process: its identity for the Lease. */
  readonly reporter: string
  readonly clock: Clock
  readonly log: Log
  /** After each try that failed: the leader may be gone. */
  readonly onUnreachable?: () => void
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly timing?: Partial<ReporterTiming>
}

export interface ReporterTiming {
  /** Between two reports, so that what happens within it goes out as one. */
  readonly paceMs: number
  /** Waits between tries to reach the leader. */
  readonly backoff: Pick<BackoffOptions, 'initialMs' | 'maxMs'>
}

export const defaultReporterTiming: ReporterTiming = {
  paceMs: 50,
  backoff: { initialMs: 200, maxMs: 5_000 },
}

/** While nothing changes there is nothing to do, but to see whether clients were forgotten. */
const idleLookMs = 10_000

export function createPeerReporter(options: PeerReporterOptions): PeerReporter {
  const pause = createWakeablePause()
  let address: string | undefined
  let stopping = new AbortController()
  let running: Promise<void> = Promise.resolve()
  options.feed.onChange(pause.wake)

  return {
    setLeader(next) {
      if (next === address) return
      address = next
      stopping.abort()
      stopping = new AbortController()
      const { signal } = stopping
      const before = running
      running = before.then(() => (next === undefined ? undefined : reportTo(next, options, pause, signal)))
    },
    async stop() {
      stopping.abort()
      await running
    },
  }
}

/** Until the signal is aborted; never rejects. */
async function reportTo(
  leader: string,
  options: PeerReporterOptions,
  pause: WakeablePause,
  signal: AbortSignal,
): Promise<void> {
  const { tls, log, random } = options
  const timing = { ...defaultReporterTiming, ...options.timing }
  const backoff = createBackoff({ ...timing.backoff, factor: 2, jitter: 0.5, random })
  let told = ''
  let client: GrpcClient | undefined
  while (!signal.aborted) {
    try {
      client ??= createGrpcClient(leader, { tls })
      await reportOnce(client, options, timing.paceMs, pause, signal, () => {
        if (told !== 'reporting') log.info('reporting to the leader', { leader })
        told = 'reporting'
        backoff.reset()
      })
    } catch (error) {
      const reason = (error as Error).message
      if (reason !== told && !signal.aborted) log.warn('cannot report to the leader', { leader, reason })
      told = reason
      if (!signal.aborted) options.onUnreachable?.()
    }
    await wait(backoff.nextMs(), signal)
  }
  client?.close()
}

/** One stream, until it ends; then rejects with the reason. */
async function reportOnce(
  client: GrpcClient,
  { feed, reporter, clock }: PeerReporterOptions,
  paceMs: number,
  pause: WakeablePause,
  signal: AbortSignal,
  onReceived: () => void,
): Promise<void> {
  const call = client.bidi(reportPath, reporterCodec, { signal })
  const answers = countAnswers(call, () => {
    onReceived()
    pause.wake()
  })
  answers.ended.catch(() => {}).finally(pause.wake)
  const writer = createReportWriter(reporter)
  let sent = 0
  while (!signal.aborted && !answers.hasEnded()) {
    const report = answers.count() === sent ? writer.next(feed.standings(), clock.monotonicMs()) : undefined
    if (report === undefined) await pause.wait(idleLookMs, signal)
    else {
      sent += 1
      call.write(report)
      await wait(paceMs, signal)
    }
  }
  await answers.ended
}

function countAnswers(call: BidiCall<AgedReport, unknown>, onAnswer: () => void) {
  let count = 0
  let hasEnded = false
  async function read(): Promise<void> {
    try {
      for await (const _ of call.messages) {
        count += 1
        onAnswer()
      }
      throw new Error('the leader ended the stream')
    } finally {
      hasEnded = true
    }
  }
  return { ended: read(), count: () => count, hasEnded: () => hasEnded }
}

/** Waits, or until aborted. */
function wait(ms: number, signal: AbortSignal): Promise<void> {
  return sleep(ms, undefined, { signal }).catch(() => {})
}
