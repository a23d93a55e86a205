import { interruptedMs, interruptedStatus, LogRefusal } from '../../stream-log.ts'
import type { RedisLogSetup } from '../setup.ts'
import type { Directory } from './directory.ts'
import type { DirectorySync } from './directory-sync.ts'

/**
 * Ends the requests of these ids for all brokers, and rejects further pushes; see `StreamLog.interrupt`. The
 * rejection is stored before the directory is read, so that no request begins unnoticed in between.
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
    throw new LogRefusal('unavailable', 'the log cannot be reached')
  }
}
