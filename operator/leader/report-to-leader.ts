import type { Clock } from '@tollway/chassis/clock.ts'
import { WakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import { BackgroundReceiver } from '@tollway/grpc/client/reconnecting-call.ts'
import { encodeLoad, type LoadReport, type StreamLoads } from '../pods/stream-loads.ts'
import type { Feed } from '../xds/feed.ts'
import type { LeaderConnection } from './leader-connection.ts'
import { leaderPath } from './leader-service.ts'
import { reporterCodec } from './report-codec.ts'
import { ReportWriter } from './report-writer.ts'

/**
 * How often the state is compared without a notification: a missed change is reported after this time at the
 * latest.
 */
const idleCheckMs = 10_000

interface AcknowledgementSource {
  readonly feed: Pick<Feed, 'clientStates' | 'onChange'>
  /** The identity of this process for the Lease, which is unique. */
  readonly reporter: string
  readonly clock: Clock
  /** The minimum time between two reports, 50 ms when left out. Changes within this time are one report. */
  readonly paceMs?: number
}

/**
 * Reports to the leader which contents the clients of this operator enforce. Returns a function that stops
 * the reports.
 */
export function reportAcknowledgements(
  leader: LeaderConnection,
  { feed, reporter, clock, paceMs = 50 }: AcknowledgementSource,
): () => Promise<void> {
  const pause = new WakeablePause()
  feed.onChange(pause.wake)
  return leader.keepCalling('acknowledgements', async (client, signal, onWorking) => {
    const call = client.bidi(leaderPath('Acknowledge'), reporterCodec, { signal })
    const pacing = new WakeablePause()
    const writer = new ReportWriter(reporter)
    let sent = 0
    let received = 0
    const receive = () => {
      received += 1
      onWorking()
      pause.wake()
    }
    const receiver = new BackgroundReceiver(call.messages, receive, pause.wake)
    while (!signal.aborted && !receiver.hasEnded) {
      const report = received === sent ? writer.next(feed.clientStates(), clock.monotonicMs()) : undefined
      if (report === undefined) await pause.wait(idleCheckMs, signal)
      else {
        sent += 1
        void call.write(report)
        await pacing.wait(paceMs, signal)
      }
    }
    await receiver.ended
  })
}

const loadCodec = { encode: encodeLoad, decode: () => undefined }

/**
 * Passes the loads of brokers on to the leader. Each round sends only the loads that have changed since the
 * round before, so that nothing is queued. Returns a function that stops the reports.
 *
 * @param paceMs the minimum time between two rounds, in milliseconds
 */
export function reportLoads(
  leader: LeaderConnection,
  loads: Pick<StreamLoads, 'own' | 'onChange'>,
  paceMs = 1_000,
): () => Promise<void> {
  const pause = new WakeablePause()
  loads.onChange(pause.wake)
  return leader.keepCalling('loads', async (client, signal, onWorking) => {
    const call = client.bidi<LoadReport, void>(leaderPath('ReportLoads'), loadCodec, { signal })
    const pacing = new WakeablePause()
    const reported = new Map<string, number>()
    const wake = () => {
      pause.wake()
      pacing.wake()
    }
    const receiver = new BackgroundReceiver(call.messages, () => {}, wake)
    while (!signal.aborted && !receiver.hasEnded) {
      const own = loads.own()
      const removed = [...reported.keys()].filter(uid => !own.has(uid))
      const changed = [...own].filter(([uid, { revision }]) => reported.get(uid) !== revision)
      for (const [uid, { routes, revision }] of changed) {
        await call.write({ uid, routes })
        reported.set(uid, revision)
      }
      for (const uid of removed) {
        await call.write({ uid, routes: new Map() })
        reported.delete(uid)
      }
      await pacing.wait(paceMs, signal)
      if (receiver.hasEnded || signal.aborted) break
      // The call has not failed for `paceMs`, so the leader reads. It answers only when the stream ends.
      onWorking()
      await pause.wait(idleCheckMs, signal)
    }
    await receiver.ended
  })
}
