import { setTimeout as pause } from 'node:timers/promises'
import { idsKey } from '../../wire/animation-ids.ts'
import {
  interruptedMs,
  interruptedStatus,
  LogRejection,
  type Opening,
  type RequestEnd,
  restartedEnd,
} from '../stream-log.ts'
import { unavailable } from './connection.ts'
import type { Directory } from './directory.ts'
import {
  type DirectoryEntry,
  decodeEnd,
  decodeEntry,
  encodeEnd,
  encodeEntry,
  endedEntry,
  type StoredEnd,
} from './directory-entry.ts'
import type { DirectorySync } from './directory-sync.ts'
import { endId } from './keys.ts'
import { endScript } from './scripts.ts'
import { endGraceMs, type RedisLogSetup } from './setup.ts'

/**
 * The effective end, from this or an earlier attempt; `missing` if Redis has lost the request; `moved` if the
 * producer has continued, so that this attempt is rejected.
 */
export type EndAnswer = StoredEnd | 'missing' | 'moved'

export type EndingBroker = 'owner' | 'any' | { readonly uses: string }

/**
 * Ends a request for all brokers. May be repeated: the first of several ends is effective. Rejects if Redis
 * does not answer.
 *
 * @param who `owner`: only while the owner in `entry` is still the owner; `uses`: only unless the producer
 *   has continued since this number of uses; `any`: always
 */
export async function endRequest(
  setup: RedisLogSetup,
  entry: DirectoryEntry,
  end: RequestEnd,
  who: EndingBroker = 'owner',
): Promise<EndAnswer> {
  const { keys, commands, clock, podId: by } = setup
  const { key, epoch } = entry
  const text = encodeEnd({ end, by })
  const reply = await commands.runScript(
    endScript,
    [keys.entries(key), keys.header(key), keys.requests, keys.running, keys.changes, keys.producer(key)],
    [
      ...[idsKey(entry.ids), key, endId(epoch), text],
      `${epoch} ${encodeEntry(endedEntry(entry, { end, by }, clock.nowMs()))}`,
      Math.round(entry.limits.keepMs) + endGraceMs,
      who === 'any' ? '' : entry.owner,
      typeof who === 'object' ? who.uses : '',
    ],
  )
  const answer = String(reply)
  if (answer === 'missing' || answer === 'moved') return answer
  return decodeEnd(answer === 'ok' ? text : answer)
}

/** The interval in which a broker looks for the answer of another broker. */
const pollMs = 50

/**
 * See `StreamLog.endLost`. A broker that has noticed the loss has recorded it in Redis. Otherwise, the
 * producer's broker is asked; without an answer or a heartbeat within `answerMs`, it is lost with its
 * producers. The wait advances only with replies of Redis, so that a pause of Redis or of this process does
 * not make it seem lost.
 */
export async function endLostRequest(
  setup: RedisLogSetup,
  directory: Directory,
  sync: DirectorySync,
  { ids, bearerHash }: Pick<Opening, 'ids' | 'bearerHash'>,
): Promise<boolean> {
  const { keys, commands, podId } = setup
  const found = await commands.call('HGET', keys.running, idsKey(ids)).catch(unavailable)
  if (!(found instanceof Uint8Array)) return false
  const run = String(found)
  const { bearer, uses, isLost } = await readProducer(setup, run).catch(unavailable)
  if (bearer !== bearerHash) return false
  const local = directory.get(run)?.running
  if (local !== undefined) return await local.endLost(restartedEnd)
  const value = await commands.call('HGET', keys.requests, run).catch(unavailable)
  const entry = decodeEntry(run, String(value))
  if (entry === undefined || entry.podId === podId) return false
  if (!isLost && !(await isProducerLost(setup, run, entry.podId).catch(unavailable))) return false
  // The directory may be older than what was just read.
  directory.apply(entry)
  return await sync.end(entry, restartedEnd, { uses }).catch(unavailable)
}

/** Resolves with whether the producer, or the producer's broker, is lost. */
async function isProducerLost(setup: RedisLogSetup, run: string, podId: string): Promise<boolean> {
  const { keys, commands, timings } = setup
  const first = await readHeartbeat(setup, podId)
  await commands.call('XADD', keys.inbox(podId), 'NOMKSTREAM', '*', '', '', 'ask', run)
  for (let waitedMs = 0; waitedMs < timings.answerMs; waitedMs += pollMs) {
    const { answers } = await readHeartbeat(setup, podId)
    // The producer is read last, so that a loss that the broker recorded before its answer is seen.
    if ((await readProducer(setup, run)).isLost) return true
    if (answers !== first.answers) return false
    await pause(pollMs)
  }
  return (await readHeartbeat(setup, podId)).beats === first.beats
}

/**
 * Reads the heartbeat of a broker. `answers` is undefined for a broker of an earlier version, which does not
 * answer.
 */
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

/**
 * See `StreamLog.interrupt`. The rejection of pushes is stored before the directory is read, so that no
 * request begins unnoticed in between.
 */
export async function interruptRequests(
  { commands, keys }: RedisLogSetup,
  directory: Directory,
  sync: DirectorySync,
  streamId: string,
  requestId: string,
): Promise<number> {
  const reject = (id: string) => commands.call('SET', keys.interrupted(streamId, id), '', 'PX', interruptedMs)
  try {
    if (requestId !== '') await reject(requestId)
    await sync.readAll()
    const running = directory
      .all()
      .map(({ entry }) => entry)
      .filter(({ ids, ended }) => ended === undefined && ids.streamId === streamId)
      .filter(({ ids }) => requestId === '' || ids.requestId === requestId)
    const ended = running.map(async entry => {
      if (requestId === '' && entry.ids.requestId !== '') await reject(entry.ids.requestId)
      return await sync.end(entry, { how: 'interrupted', status: interruptedStatus }, 'any')
    })
    return (await Promise.all(ended)).filter(Boolean).length
  } catch {
    throw new LogRejection('unavailable', 'the log cannot be reached')
  }
}
