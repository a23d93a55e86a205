import type { RequestEnd } from '../../stream-log.ts'
import type { RedisConnection } from '../connection.ts'
import { findUnsupported } from '../find-unsupported.ts'
import type { Producers } from '../producing/producers.ts'
import type { RedisLogSetup } from '../setup.ts'
import type { Directory } from './directory.ts'
import type { DirectorySync } from './directory-sync.ts'
import { createPods } from './pods.ts'

/** The periodic work of a broker in Redis, and its health. */
export interface Heartbeat {
  readonly healthy: boolean
  readonly problem: string
  /** The required version if Redis is too old for the log; empty otherwise. */
  readonly unsupported: string
  onHealth(listener: (healthy: boolean) => void): () => void
  /** The time since reads have failed; 0 if they work. */
  readsAwayMs(): number
  /** The process was paused: all timeouts start again. */
  extendDeadlinesAfterStall(): void
  /** Removes the heartbeat of this broker. */
  close(): Promise<void>
}

export interface HeartbeatOptions {
  readonly setup: RedisLogSetup
  readonly reads: RedisConnection
  readonly directory: Directory
  readonly producers: Producers
  readonly sync: DirectorySync
  /** The whole directory was read. */
  readonly onSynced: () => void
}

const lostBroker: RequestEnd = {
  how: 'lost',
  status: { code: 'ERROR', message: "the producer's broker was lost" },
}
/** The expiry of a running request in Redis is renewed this number of times before it passes. */
const refreshesPerExpiry = 3

export function startHeartbeat(options: HeartbeatOptions): Heartbeat {
  const { setup, reads, directory, producers, sync } = options
  const { keys, podId, commands, clock, repeat, timings } = setup
  const pods = createPods(setup)
  const listeners = new Set<(healthy: boolean) => void>()
  /** This Redis supports the commands of the log. The next connection may lead to another server. */
  let checked = false
  let unsupported = ''
  let synced = false
  let healthy = false
  let refused = ''
  let awaySinceMs: number | undefined = clock.monotonicMs()
  let refreshedMs = clock.monotonicMs()

  function lookAtHealth(): void {
    const next = commands.ready && reads.ready && synced
    if (next === healthy) return
    healthy = next
    for (const listener of listeners) listener(next)
  }

  async function readAll(): Promise<void> {
    if (!checked) unsupported = await findUnsupported(setup)
    if (unsupported !== '') return
    checked = true
    await sync.readAll()
    synced = true
    refused = ''
    options.onSynced()
    lookAtHealth()
  }

  async function beat(): Promise<void> {
    const running = directory.all().filter(({ filed }) => filed.podId !== podId && filed.ended === undefined)
    const silences = await pods.beat(new Set(running.map(({ filed }) => filed.podId)))
    const orphans = running.filter(
      ({ filed: { podId, graceMs } }) => (silences.get(podId) ?? 0) >= Math.max(timings.lostMs, graceMs),
    )
    await Promise.all(orphans.map(({ filed }) => sync.end(filed, lostBroker)))
    if (!synced) await readAll()
    await refresh()
  }

  /** Renews the expiry of this broker's requests in Redis; without it they expire. */
  async function refresh(): Promise<void> {
    const nowMs = clock.monotonicMs()
    if (nowMs - refreshedMs < timings.orphanMs / refreshesPerExpiry) return
    refreshedMs = nowMs
    const names = producers
      .running()
      .flatMap(({ filed: { key } }) => [keys.entries(key), keys.header(key), keys.producer(key)])
    await Promise.all(names.map(name => commands.call('PEXPIRE', name, timings.orphanMs)))
  }

  const beatInTurn = inTurn(beat, tell)
  const readAllInTurn = inTurn(readAll, tell)
  function tell(error: Error): void {
    refused = `Redis: ${error.message}`
  }

  function resetDeadlines(): void {
    pods.resetDeadlines()
    for (const local of producers.running()) local.readers.resetDeadlines()
  }

  commands.onChange(ready => {
    synced = false
    checked = false
    if (ready) {
      resetDeadlines()
      beatInTurn()
    }
    lookAtHealth()
  })
  reads.onChange(ready => {
    awaySinceMs = ready ? undefined : (awaySinceMs ?? clock.monotonicMs())
    lookAtHealth()
  })
  const stopBeats = repeat(timings.heartbeatMs, beatInTurn)
  const stopReading = repeat(timings.directoryMs, readAllInTurn)

  return {
    get healthy() {
      return healthy
    },
    get problem() {
      if (healthy) return ''
      return commands.problem || reads.problem || unsupported || refused || 'the directory was not read yet'
    },
    get unsupported() {
      return unsupported
    },
    onHealth(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    readsAwayMs: () => (awaySinceMs === undefined ? 0 : clock.monotonicMs() - awaySinceMs),
    extendDeadlinesAfterStall() {
      resetDeadlines()
      for (const local of producers.running()) local.extendDeadlinesAfterStall()
      if (awaySinceMs !== undefined) awaySinceMs = clock.monotonicMs()
    },
    async close() {
      stopBeats()
      stopReading()
      listeners.clear()
      if (commands.ready) await pods.leave().catch(() => {})
    },
  }
}

/** Does not start work while it is in progress, and reports its errors. */
function inTurn(work: () => Promise<void>, onError: (error: Error) => void): () => void {
  let busy = false
  return () => {
    if (busy) return
    busy = true
    work()
      .catch(onError)
      .finally(() => {
        busy = false
      })
  }
}
