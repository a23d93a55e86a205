import { createWakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import type { GrpcClient } from '@tollway/grpc/client/client.ts'
import { loadReporterCodec, loadReportPath, type StreamLoads } from '../pods/stream-loads.ts'
import { createLeaderCall, type LeaderCall, type LeaderCallOptions, wait } from './leader-call.ts'

export interface LoadRelayOptions extends Omit<LeaderCallOptions, 'what'> {
  readonly loads: Pick<StreamLoads, 'heardHere' | 'onChange'>
  /** The time between two rounds of reports. 1,000 when left out. */
  readonly paceMs?: number
}

/** A missed change is reported after this time at the latest. */
const idleCheckMs = 10_000

/**
 * Passes the reports of brokers on to the leader, on one stream. Level-based: each round sends the difference
 * to the last report, so nothing is queued.
 */
export function createLoadRelay({ loads, paceMs = 1_000, ...options }: LoadRelayOptions): LeaderCall {
  const pause = createWakeablePause()
  loads.onChange(pause.wake)

  async function relayOnce(client: GrpcClient, signal: AbortSignal, onReceived: () => void): Promise<void> {
    const call = client.bidi(loadReportPath, loadReporterCodec, { signal })
    const reported = new Map<string, number>()
    let hasEnded = false
    const ended = endOf(call.messages).finally(() => {
      hasEnded = true
      pause.wake()
    })
    ended.catch(() => {})
    while (!signal.aborted && !hasEnded) {
      const heard = loads.heardHere()
      const gone = [...reported.keys()].filter(uid => !heard.has(uid))
      const news = [...heard].filter(([uid, { revision }]) => reported.get(uid) !== revision)
      for (const [uid, { routes, revision }] of news) {
        await call.write({ uid, routes })
        reported.set(uid, revision)
      }
      for (const uid of gone) {
        await call.write({ uid, routes: new Map() })
        reported.delete(uid)
      }
      await wait(paceMs, signal)
      if (!hasEnded && !signal.aborted) {
        onReceived()
        await pause.wait(idleCheckMs, signal)
      }
    }
    await ended
  }

  return createLeaderCall({ ...options, what: 'loads' }, relayOnce)
}

/** The server continues to read while it does not end the call. */
async function endOf(messages: AsyncIterable<unknown>): Promise<never> {
  for await (const _ of messages);
  throw new Error('the leader ended the stream')
}
