import { idsKey } from '../../wire/animation-ids.ts'
import { type ResumeTokens, useToken } from '../resume-tokens.ts'
import {
  describeEnd,
  duplicateIdsRejection,
  endedRejection,
  interruptedRejection,
  LogRejection,
  type LogWriter,
  type Opening,
  type ResumedRequest,
  type Resumption,
  runExpiredRejection,
} from '../stream-log.ts'
import { unavailable } from './connection.ts'
import type { Directory } from './directory.ts'
import { type DirectoryEntry, decodeEntry, encodeEntry } from './directory-entry.ts'
import { openScript, resumeScript } from './scripts.ts'
import { directoryExpiryMs, type RedisLogSetup } from './setup.ts'

/** See `StreamLog.open`. */
export async function openRequest(
  setup: RedisLogSetup,
  directory: Directory,
  key: string,
  opening: Opening,
): Promise<LogWriter> {
  const { podId, commands, clock, timings } = setup
  const { ids, sourceServiceId, route, traceparent, limits, header, resume, progress = {} } = opening
  await commands.whenReady(timings.stallMs).catch(unavailable)
  const owned = { podId, owner: 0, graceMs: resume?.graceMs ?? 0 }
  const entry = { ...owned, ids, sourceServiceId, route, traceparent, openedMs: clock.nowMs(), limits }
  return await directory.runExclusively(key, async () => {
    const answer = await storeOpening(setup, key, entry, opening).catch(unavailable)
    if (answer === 'exists') throw duplicateIdsRejection()
    if (answer === 'interrupted') throw interruptedRejection()
    return directory.host({ ...entry, key, epoch: Number(answer) }, { header, progress, uses: 0 })
  })
}

/** Resolves with the reply of `openScript`. */
async function storeOpening(
  { keys, commands, timings }: RedisLogSetup,
  key: string,
  entry: Omit<DirectoryEntry, 'key' | 'epoch'>,
  { ids, header, resume, progress = {}, bearerHash }: Opening,
): Promise<string> {
  const names = [
    ...[keys.running, keys.requests, keys.epoch, keys.changes],
    ...[keys.interrupted(ids.streamId, ids.requestId), keys.entries(key), keys.header(key)],
    keys.producer(key),
  ]
  const values = [
    ...[idsKey(ids), key, encodeEntry(entry), header, timings.orphanMs, directoryExpiryMs],
    ...[resume?.tokenHash ?? '', JSON.stringify(progress), bearerHash],
  ]
  return String(await commands.runScript(openScript, names, values))
}

/**
 * The most tries to continue a request. A try fails if, between its two commands, another call has used the
 * token or the producer has moved.
 */
const maxTries = 5

/**
 * See `StreamLog.resume`. If the producer was at another broker, this one becomes the owner: Redis rejects
 * later entries of the previous owner, and keeps all earlier ones.
 */
export async function resumeRequest(
  setup: RedisLogSetup,
  directory: Directory,
  resumption: Resumption,
): Promise<ResumedRequest> {
  await setup.commands.whenReady(setup.timings.stallMs).catch(unavailable)
  return await directory.runExclusively(resumption.run, async () => {
    for (let tried = 0; tried < maxTries; tried += 1) {
      const resumed = await tryResume(setup, directory, resumption)
      if (resumed !== undefined) return resumed
    }
    throw new LogRejection('unavailable', 'the request is continued by others at the same time')
  })
}

interface Stored {
  readonly entry: DirectoryEntry
  readonly header: Uint8Array
  readonly owner: string
  readonly tokens: ResumeTokens | undefined
}

async function readStored({ keys, commands }: RedisLogSetup, run: string): Promise<Stored> {
  const [value, header, fields] = await Promise.all([
    commands.call('HGET', keys.requests, run),
    commands.call('GET', keys.header(run)),
    commands.call('HMGET', keys.producer(run), 'owner', 'token', 'previous', 'uses'),
  ]).catch(unavailable)
  const entry = value instanceof Uint8Array ? decodeEntry(run, String(value)) : undefined
  if (entry === undefined || !(header instanceof Uint8Array)) throw runExpiredRejection(run)
  const [owner, tokenHash, previousHash, uses] = (fields as (Uint8Array | null)[]).map(field =>
    field === null ? '' : String(field),
  )
  const previous = previousHash ? { previousHash } : {}
  const tokens = tokenHash ? { tokenHash, ...previous, uses: Number(uses) } : undefined
  return { entry, header: new Uint8Array(header), owner: owner ?? '', tokens }
}

/** Returns undefined if the request has changed since it was read. */
async function tryResume(
  setup: RedisLogSetup,
  directory: Directory,
  resumption: Resumption,
): Promise<ResumedRequest | undefined> {
  const { podId } = setup
  const { entry, header, owner, tokens } = await readStored(setup, resumption.run)
  const { uses } = useToken(tokens, resumption)
  if (entry.ended !== undefined) throw endedRejection(describeEnd(entry.ended.end))
  // The directory may be older than what was just read.
  directory.apply(entry)
  const local = directory.get(entry.key)?.running
  const next = local === undefined ? { ...entry, podId, owner: Number(owner) + 1 } : entry
  const progress = await useStoredToken(setup, { resumption, owner, next, isNew: local === undefined })
  if (progress === undefined) return undefined
  if (local !== undefined) {
    const resumed = local.resume(uses)
    if (resumed === undefined) throw endedRejection('the time to continue is over')
    return { ...resumed, uses }
  }
  const request = directory.get(entry.key)
  if (request === undefined) throw runExpiredRejection(resumption.run)
  return { writer: await request.takeOver(next, { header, progress, uses }), header, uses, progress }
}

interface TokenUse {
  readonly resumption: Resumption
  readonly owner: string
  readonly next: DirectoryEntry
  readonly isNew: boolean
}

/** Resolves with the progress of the last entry; undefined if the request has changed since it was read. */
async function useStoredToken(
  setup: RedisLogSetup,
  { resumption, owner, next, isNew }: TokenUse,
): Promise<object | undefined> {
  const { keys, commands, timings } = setup
  const { run, tokenHash, nextTokenHash } = resumption
  const names = [keys.producer(run), keys.requests, keys.changes, keys.entries(run), keys.header(run)]
  const entry = isNew ? `${next.epoch} ${encodeEntry(next)}` : ''
  const values = [run, owner, tokenHash, nextTokenHash, next.owner, entry, timings.orphanMs]
  const reply = await commands.runScript(resumeScript, names, values).catch(unavailable)
  return reply instanceof Uint8Array ? JSON.parse(String(reply)) : undefined
}
