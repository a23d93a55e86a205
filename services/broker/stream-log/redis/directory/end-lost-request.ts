import { setTimeout as pause } from 'node:timers/promises'
import { cameBack, type Opening } from '../../stream-log.ts'
import { decodeEntry, idsField } from '../directory-entry.ts'
import type { RedisLogSetup } from '../setup.ts'
import { unavailable } from '../unavailable.ts'
import type { Directory } from './directory.ts'
import type { DirectorySync } from './directory-sync.ts'

/** The interval in which a broker looks for the answer of another one. */
const lookEveryMs = 50

/**
 * Ends the running request of these ids if its producer is lost, at any broker; see `StreamLog.endLost`.
 *
 * A broker that has noticed the loss has recorded it. Another one is asked whether the producer is connected.
 * If it neither answers nor sends a heartbeat, it is lost itself, and its producers with it. Its time is
 * counted in replies of Redis, so that it is not lost because Redis or this process was paused.
 */
export async function endLostRequest(
  setup: RedisLogSetup,
  directory: Directory,
  sync: DirectorySync,
  { ids, bearerHash }: Pick<Opening, 'ids' | 'bearerHash'>,
): Promise<boolean> {
  const { keys, commands, podId } = setup
  const found = await commands.call('HGET', keys.running, idsField(ids)).catch(unavailable)
  if (!(found instanceof Uint8Array)) return false
  const run = String(found)
  const { bearer, uses, isLost } = await readProducer(setup, run).catch(unavailable)
  if (bearer !== bearerHash) return false
  const local = directory.get(run)?.running
  if (local !== undefined) return await local.endLost(cameBack)
  const value = await commands.call('HGET', keys.requests, run).catch(unavailable)
  const entry = decodeEntry(run, String(value))
  if (entry === undefined || entry.podId === podId) return false
  if (!isLost && !(await losesProducer(setup, run, entry.podId).catch(unavailable))) return false
  // The directory of this broker may be older than the data that was read.
  directory.learn(entry)
  return await sync.end(entry, cameBack, { uses }).catch(unavailable)
}

/** Resolves with whether the broker has lost the producer, or is lost. */
async function losesProducer(setup: RedisLogSetup, run: string, podId: string): Promise<boolean> {
  const { keys, commands, timings } = setup
  const first = await readHeartbeat(setup, podId)
  await commands.call('XADD', keys.inbox(podId), 'NOMKSTREAM', '*', '', '', 'ask', run)
  for (let waitedMs = 0; waitedMs < timings.answerMs; waitedMs += lookEveryMs) {
    const { answers } = await readHeartbeat(setup, podId)
    // A loss that was noticed before the answer is read after it.
    if ((await readProducer(setup, run)).isLost) return true
    if (answers !== first.answers) return false
    await pause(lookEveryMs)
  }
  return (await readHeartbeat(setup, podId)).beats === first.beats
}

/** Brokers of earlier versions write no answers. */
async function readHeartbeat({ keys, commands }: RedisLogSetup, podId: string) {
  const value = await commands.call('GET', keys.heartbeat(podId))
  const [beats, answers] = value instanceof Uint8Array ? String(value).split(' ') : []
  return { beats, answers }
}

async function readProducer({ keys, commands }: RedisLogSetup, run: string) {
  const fields = await commands.call('HMGET', keys.producer(run), 'bearer', 'uses', 'lost')
  const [bearer, uses, lost] = (fields as (Uint8Array | null)[]).map(field => field && String(field))
  return { bearer, uses: uses ?? '', isLost: lost !== null && lost === uses }
}
