import { createEndedRequests } from '../../ended-requests.ts'
import type { Ring } from '../../ring.ts'
import {
  LogRefusal,
  type Opening,
  type Progress,
  type RequestEnd,
  type RequestWriter,
} from '../../stream-log.ts'
import type { Directory } from '../directory/directory.ts'
import { type DirectoryEntry, encodeEntry, idsField } from '../directory/directory-entry.ts'
import type { Report } from '../reading/positions.ts'
import { forgetScript, openScript } from '../scripts.ts'
import { directoryExpiryMs, endGraceMs, type RedisLogSetup } from '../setup.ts'
import type { StoredEnd } from './end-request.ts'
import { awayStatus, LocalRequest } from './local-request.ts'
import { isOutOfMemory, outOfMemory } from './out-of-memory.ts'

/** The requests whose producers are at this broker. */
export interface Producers {
  /** Rejects with a `LogRefusal` as `StreamLog.open` does. */
  open(opening: Opening): Promise<RequestWriter>
  /** The running requests. */
  running(): readonly LocalRequest[]
  get(key: string): LocalRequest | undefined
  /** Until the work is done, a request with this key that is about to start here is not treated as lost. */
  expecting<T>(key: string, work: () => Promise<T>): Promise<T>
  /** Continues a request that another broker began, and whose ring is complete. */
  takeOver(filed: DirectoryEntry, taken: TakenOver): RequestWriter
  /** The positions of readers at another broker. */
  heard(podId: string, reports: readonly Report[]): void
  /**
   * The end of a request that is running according to Redis with a producer at this broker; undefined if it
   * is running. An unknown request began when the connection was lost, and has no producer.
   */
  endOf(key: string): RequestEnd | undefined
  /** Redis has stored its end, or has none of it. */
  settled(key: string): void
  /** Forgets ended requests whose time is over. */
  sweep(): void
}

export interface TakenOver {
  readonly header: Uint8Array
  readonly progress: Progress
  readonly ring?: Ring
}

export function createProducers(setup: RedisLogSetup, directory: Directory): Producers {
  const { podId, keys, commands, clock, timings, budget } = setup
  const ended = createEndedRequests({ nowMs: clock.nowMs, maxBytes: budget.limit / 2 })
  const opening = new Set<string>()
  const running = new Map<string, LocalRequest>()
  /** The ends of requests while Redis was unavailable. Bounded, because no request begins in that time. */
  const owed = new Map<string, RequestEnd>()
  let count = 0

  async function begin(key: string, filed: Omit<DirectoryEntry, 'key' | 'epoch'>, opened: Opening) {
    const { ids, header, resume, progress = {} } = opened
    const names = [
      ...[keys.running, keys.requests, keys.epoch, keys.news],
      ...[keys.interrupted(ids.streamId, ids.requestId), keys.entries(key), keys.header(key)],
      keys.producer(key),
    ]
    const values = [
      ...[idsField(ids), key, encodeEntry(filed), header, timings.orphanMs, directoryExpiryMs],
      ...[resume?.tokenHash ?? '', JSON.stringify(progress)],
    ]
    return String(await commands.call('EVAL', openScript, names.length, ...names, ...values))
  }

  /**
   * Adds the stored bytes of an ended request to the budget, and removes it from Redis when later ones need
   * the room.
   */
  function keep(filed: DirectoryEntry, bytes: number): void {
    budget.spend(bytes)
    ended.add({
      bytes,
      untilMs: clock.nowMs() + filed.limits.keepMs + endGraceMs,
      forget(early) {
        budget.spend(-bytes)
        if (early) discard(filed).catch(() => {})
      },
    })
  }

  /** Entries that are not discarded expire a little later. */
  async function discard({ key, ids }: DirectoryEntry): Promise<void> {
    directory.forget(key)
    await commands.call('UNLINK', keys.entries(key), keys.header(key), keys.producer(key))
    const names = [keys.entries(key), keys.requests, keys.running]
    await commands.call('EVAL', forgetScript, names.length, ...names, idsField(ids), key)
  }

  function add(filed: DirectoryEntry, taken: TakenOver): RequestWriter {
    function onEnd({ end, by }: StoredEnd, storedBytes: number): void {
      running.delete(filed.key)
      keep(filed, storedBytes)
      directory.learn({ ...filed, ended: { end, by, atMs: clock.nowMs() } })
    }
    function onLost(end: RequestEnd): void {
      running.delete(filed.key)
      owed.set(filed.key, end)
    }
    let writer: RequestWriter | undefined
    directory.host(filed, request => {
      const onMoved = () => running.delete(filed.key)
      const local = new LocalRequest({ ...taken, setup, filed, request, onEnd, onLost, onMoved })
      running.set(filed.key, local)
      writer = local.writer
      return local
    })
    if (writer === undefined) throw new LogRefusal('gone', 'no message of the request is kept any more')
    return writer
  }

  async function expecting<T>(key: string, work: () => Promise<T>): Promise<T> {
    opening.add(key)
    try {
      return await work()
    } finally {
      opening.delete(key)
    }
  }

  return {
    async open(opened) {
      const { ids, sourceServiceId, route, traceparent, limits, header, resume, progress = {} } = opened
      await commands.whenReady(timings.stallMs).catch(unavailable)
      count += 1
      const key = `${podId}.${count}`
      const openedMs = clock.nowMs()
      const owned = { podId, owner: 0, graceMs: resume?.graceMs ?? 0 }
      const filed = { ...owned, ids, sourceServiceId, route, traceparent, openedMs, limits }
      return await expecting(key, async () => {
        const answer = await begin(key, filed, opened).catch(unavailable)
        if (answer === 'exists') throw new LogRefusal(answer, 'a push with the same ids is running')
        if (answer === 'interrupted') throw new LogRefusal(answer, 'the request was interrupted')
        return add({ ...filed, key, epoch: Number(answer) }, { header, progress })
      })
    },
    running: () => [...running.values()],
    get: key => running.get(key),
    expecting,
    takeOver: add,
    heard(from, reports) {
      for (const [key, position] of reports) running.get(key)?.readers.heard(from, position ?? undefined)
    },
    endOf(key) {
      if (opening.has(key) || running.has(key)) return undefined
      return owed.get(key) ?? { how: 'lost', status: awayStatus }
    },
    settled: key => owed.delete(key),
    sweep: ended.sweep,
  }
}

/** @throws LogRefusal `unavailable` for the error of a Redis command */
export function unavailable(error: unknown): never {
  throw new LogRefusal('unavailable', isOutOfMemory(error) ? outOfMemory : 'the log cannot be reached')
}
