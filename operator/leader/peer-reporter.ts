import type { BackoffOptions } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { createWakeablePause, type WakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import type { BidiCall, GrpcClient } from '@tollway/grpc/client/client.ts'
import type { ClientTls } from '@tollway/grpc/client/client-tls.ts'
import type { Feed } from '../xds/feed.ts'
import { createLeaderCall, type LeaderCall, wait } from './leader-call.ts'
import { type AgedReport, reporterCodec, reportPath } from './report-codec.ts'
import { createReportWriter } from './report-writer.ts'

export interface PeerReporterOptions {
  readonly feed: Pick<Feed, 'clientStates' | 'onChange'>
  /** Shows the operators' certificate, and requires it. */
  readonly tls: ClientTls
  /** The identity of this process for the Lease, which is unique. */
  readonly reporter: string
  readonly clock: Clock
  readonly log: Log
  /** Called after each failed attempt, because the leader may have stopped. */
  readonly onUnreachable?: () => void
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly timing?: Partial<ReporterTiming>
}

export interface ReporterTiming {
  /** The time between two reports. Changes within it are one report. */
  readonly paceMs: number
  /** The waits between attempts to reach the leader. */
  readonly backoff: Pick<BackoffOptions, 'initialMs' | 'maxMs'>
}

export const defaultReporterTiming: ReporterTiming = {
  paceMs: 50,
  backoff: { initialMs: 200, maxMs: 5_000 },
}

/** The interval of checks for forgotten clients while nothing changes. */
const idleCheckMs = 10_000

/** Reports to the operator that has the Lease which contents the clients of this operator enforce. */
export function createPeerReporter(options: PeerReporterOptions): LeaderCall {
  const { paceMs, backoff } = { ...defaultReporterTiming, ...options.timing }
  const { tls, log, random, onUnreachable } = options
  const pause = createWakeablePause()
  options.feed.onChange(pause.wake)
  return createLeaderCall(
    { tls, log, random, onUnreachable, backoff, what: 'acknowledgements' },
    (client, signal, onReceived) => reportOnce(client, options, paceMs, pause, signal, onReceived),
  )
}

/** Reports on one stream until it ends; then rejects with the reason. */
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
    const report =
      answers.count() === sent ? writer.next(feed.clientStates(), clock.monotonicMs()) : undefined
    if (report === undefined) await pause.wait(idleCheckMs, signal)
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
