import { createEndedRequests } from '../ended-requests.ts'
import { LogRefusal, type Opening, type RequestEnd, type RequestWriter } from '../stream-log.ts'
import type { Directory } from './directory.ts'
import { encodeFiled, type FiledRequest, idsField } from './filed-request.ts'
import { awayStatus, createLocalRequest, type LocalRequest } from './local-request.ts'
import { isOutOfMemory, outOfMemory } from './out-of-memory.ts'
import type { Report } from './positions.ts'
import { forgetScript, openScript } from './scripts.ts'
import { directoryExpiryMs, endGraceMs, type RedisLogSetup } from './setup.ts'

/** The requests whose producers are here. */
export interface Producers {
  /** Rejects with a `LogRefusal` as `StreamLog.open` does. */
  open(opening: Opening): Promise<RequestWriter>
  /** Those that run. */
  running(): readonly LocalRequest[]
  /** The readers of another broker are at these positions. */
  heard(podId: string, reports: readonly Report[]): void
  /**
   * How a request ended that Redis holds to be running with a producer here; undefined when it runs. One that
   * is not known here began when the connection was lost, and nobody has it.
   */
  endOf(key: string): RequestEnd | undefined
  /** Redis has an end of it, or nothing of it. */
  settled(key: string): void
  /** Forgets ended requests whose time is over. */
  sweep(): void
}

export function createProducers(setup: RedisLogSetup, directory: Directory): Producers {
  const { podId, keys, commands, clock, timings, budget } = setup
  const ended = createEndedRequests({ nowMs: clock.nowMs, maxBytes: budget.limit / 2 })
  const opening = new Set<string>()
  const running = new Map<string, LocalRequest>()
  /** How requests ended while Redis was away. It holds no more than ran then: none begins meanwhile. */
  const owed = new Map<string, RequestEnd>()
  let count = 0

  async function begin(key: string, filed: Omit<FiledRequest, 'key' | 'epoch'>, header: Uint8Array) {
    const { ids } = filed
    const names = [
      ...[keys.running, keys.requests, keys.epoch, keys.news],
      ...[keys.interrupted(ids.streamId, ids.requestId), keys.entries(key), keys.header(key)],
    ]
    const values = [idsField(ids), key, encodeFiled(filed), header, timings.orphanMs, directoryExpiryMs]
    return String(await commands.call('EVAL', openScript, names.length, ...names, ...values))
  }

  /** Counts what Redis keeps of an ended request, and takes it out of Redis when later ones need the room. */
  function keep(filed: FiledRequest, bytes: number): void {
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

  /** Entries that nothing discards expire a little later. */
  async function discard({ key, ids }: FiledRequest): Promise<void> {
    directory.forget(key)
    await commands.call('UNLINK', keys.entries(key), keys.header(key))
    const names = [keys.entries(key), keys.requests, keys.running]
    await commands.call('EVAL', forgetScript, names.length, ...names, idsField(ids), key)
  }

  function add(filed: FiledRequest, header: Uint8Array): RequestWriter {
    function onEnd(end: RequestEnd, storedBytes: number | undefined): void {
      running.delete(filed.key)
      if (storedBytes === undefined) {
        owed.set(filed.key, end)
        return
      }
      keep(filed, storedBytes)
      directory.learn({ ...filed, ended: { end, atMs: clock.nowMs() } })
    }
    let local: LocalRequest | undefined
    directory.learn(filed, request => {
      local = createLocalRequest({ setup, filed, header, request, onEnd })
      running.set(filed.key, local)
      return local
    })
    if (local === undefined) throw new Error(`the request ${filed.key} is there twice`)
    return local.writer
  }

  return {
    async open({ ids, sourceServiceId, route, traceparent, limits, header }) {
      await commands.whenReady(timings.stallMs).catch(unavailable)
      count += 1
      const key = `${podId}.${count}`
      const openedMs = clock.nowMs()
      const filed = { podId, ids, sourceServiceId, route, traceparent, openedMs, limits }
      opening.add(key)
      try {
        const answer = await begin(key, filed, header).catch(unavailable)
        if (answer === 'exists') throw new LogRefusal(answer, 'a push with the same ids is running')
        if (answer === 'interrupted') throw new LogRefusal(answer, 'the request was interrupted')
        return add({ ...filed, key, epoch: Number(answer) }, header)
      } finally {
        opening.delete(key)
      }
    },
    running: () => [...running.values()],
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

function unavailable(error: unknown): never {
  throw new LogRefusal('unavailable', isOutOfMemory(error) ? outOfMemory : 'the log cannot be reached')
}
