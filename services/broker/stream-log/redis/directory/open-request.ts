import { idsInUse, wasInterrupted } from '../../refusals.ts'
import type { Opening, RequestWriter } from '../../stream-log.ts'
import { type DirectoryEntry, encodeEntry, idsField } from '../directory-entry.ts'
import { openScript } from '../scripts.ts'
import { directoryExpiryMs, type RedisLogSetup } from '../setup.ts'
import { unavailable } from '../unavailable.ts'
import type { Directory } from './directory.ts'

/** Begins a request at this broker; see `StreamLog.open`. */
export async function openRequest(
  setup: RedisLogSetup,
  directory: Directory,
  key: string,
  opening: Opening,
): Promise<RequestWriter> {
  const { podId, commands, clock, timings } = setup
  const { ids, sourceServiceId, route, traceparent, limits, header, resume, progress = {} } = opening
  await commands.whenReady(timings.stallMs).catch(unavailable)
  const owned = { podId, owner: 0, graceMs: resume?.graceMs ?? 0 }
  const entry = { ...owned, ids, sourceServiceId, route, traceparent, openedMs: clock.nowMs(), limits }
  return await directory.beginning(key, async () => {
    const answer = await store(setup, key, entry, opening).catch(unavailable)
    if (answer === 'exists') throw idsInUse()
    if (answer === 'interrupted') throw wasInterrupted()
    return directory.host({ ...entry, key, epoch: Number(answer) }, { header, progress, uses: 0 })
  })
}

/** Resolves with the answer of `openScript`. */
async function store(
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
    ...[idsField(ids), key, encodeEntry(entry), header, timings.orphanMs, directoryExpiryMs],
    ...[resume?.tokenHash ?? '', JSON.stringify(progress), bearerHash],
  ]
  return String(await commands.call('EVAL', openScript, names.length, ...names, ...values))
}
