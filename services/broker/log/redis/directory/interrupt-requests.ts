import { interruptedMs, interruptedStatus, LogRefusal } from '../../stream-log.ts'
import type { RedisLogSetup } from '../setup.ts'
import type { Directory } from './directory.ts'
import type { DirectorySync } from './directory-sync.ts'

/**
 * Ends the requests of these ids for all brokers, and rejects further pushes; see `StreamLog.interrupt`. The
 * rejection is stored before the directory is read, so that no request begins unnoticed in between.
 */
export async function interruptRequests(
  setup: RedisLogSetup,
  directory: Directory,
  sync: DirectorySync,
  streamId: string,
  requestId: string,
): Promise<number> {
  const refuse = (id: string) =>
    setup.commands.call('SET', setup.keys.interrupted(streamId, id), '', 'PX', interruptedMs)
  try {
    if (requestId !== '') await refuse(requestId)
    await sync.readAll()
    const running = directory
      .all()
      .map(({ filed }) => filed)
      .filter(({ ids, ended }) => ended === undefined && ids.streamId === streamId)
      .filter(({ ids }) => requestId === '' || ids.requestId === requestId)
    const ended = running.map(async filed => {
      if (requestId === '' && filed.ids.requestId !== '') await refuse(filed.ids.requestId)
      return await sync.end(filed, { how: 'interrupted', status: interruptedStatus }, 'any')
    })
    return (await Promise.all(ended)).filter(Boolean).length
  } catch {
    throw new LogRefusal('unavailable', 'the log cannot be reached')
  }
}
