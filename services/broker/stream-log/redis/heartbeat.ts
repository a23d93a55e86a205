import type { RequestEnd } from '../stream-log.ts'
import type { RedisConnection } from './connection.ts'
import type { Directory } from './directory.ts'
import type { DirectorySync } from './directory-sync.ts'
import { heartbeatScript, probeScript } from './scripts.ts'
import type { RedisLogSetup } from './setup.ts'

interface HeartbeatOptions {
  readonly setup: RedisLogSetup
  readonly reads: RedisConnection
  readonly directory: Directory
  readonly sync: DirectorySync
}

const brokerLostEnd: RequestEnd = {
  how: 'lost',
  status: { code: 'ERROR', message: "the producer's broker was lost" },
}
/** How often the expiry of a running request is renewed during its length. */
const refreshesPerExpiry = 3

/**
 * Sends the heartbeat of a broker, ends the requests of lost brokers, and renews expiries. Also computes the
 * health of the log.
 */
export class Heartbeat {
  readonly #options: HeartbeatOptions
  readonly #heartbeats: PodHeartbeats
  readonly #listeners = new Set<(healthy: boolean) => void>()
  readonly #stopTimers: readonly (() => void)[]
  /**
   * Whether Redis was seen to have the commands of the log. It is checked for each connection, which may be
   * to another server.
   */
  #checked = false
  #unsupported = ''
  #synced = false
  #healthy = false
  #lastError = ''
  #unavailableSinceMs: number | undefined
  #refreshedMs: number

  constructor(options: HeartbeatOptions) {
    const { setup, reads } = options
    const { commands, clock, repeat, timings } = setup
    this.#options = options
    this.#heartbeats = new PodHeartbeats(setup)
    this.#refreshedMs = clock.monotonicMs()
    this.#unavailableSinceMs = this.#refreshedMs
    const beat = this.#oneAtATime(() => this.#beat())
    const readAll = this.#oneAtATime(() => this.#readAll())
    commands.onChange(ready => {
      this.#synced = false
      this.#checked = false
      if (ready) {
        this.#resetDeadlines()
        beat()
      }
      this.#updateHealth()
    })
    reads.onChange(ready => {
      this.#unavailableSinceMs = ready ? undefined : (this.#unavailableSinceMs ?? clock.monotonicMs())
      this.#updateHealth()
    })
    this.#stopTimers = [repeat(timings.heartbeatMs, beat), repeat(timings.directoryMs, readAll)]
  }

  get healthy(): boolean {
    return this.#healthy
  }

  get problem(): string {
    if (this.#healthy) return ''
    const { setup, reads } = this.#options
    const notRead = this.#lastError || 'the directory was not read yet'
    return setup.commands.problem || reads.problem || this.#unsupported || notRead
  }

  /** The required version if Redis is too old for the log; otherwise empty. */
  get unsupported(): string {
    return this.#unsupported
  }

  onHealth(listener: (healthy: boolean) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** For how many milliseconds the read connection has been down; 0 while it is ready. */
  readsUnavailableMs(): number {
    return this.#unavailableSinceMs === undefined
      ? 0
      : this.#options.setup.clock.monotonicMs() - this.#unavailableSinceMs
  }

  /** Starts all timeouts again after a pause of the process. */
  extendDeadlinesAfterStall(): void {
    const { setup, directory } = this.#options
    this.#resetDeadlines()
    for (const local of directory.running()) local.extendDeadlinesAfterStall()
    if (this.#unavailableSinceMs !== undefined) this.#unavailableSinceMs = setup.clock.monotonicMs()
  }

  /** Tells the broker that asked that the producer is connected. */
  answer(): void {
    this.#heartbeats.answer().catch(() => {})
  }

  async close(): Promise<void> {
    for (const stop of this.#stopTimers) stop()
    this.#listeners.clear()
    if (this.#options.setup.commands.ready) await this.#heartbeats.deregister().catch(() => {})
  }

  async #beat(): Promise<void> {
    const { setup, directory, sync } = this.#options
    const { podId: own, timings } = setup
    const entries = directory.all().map(({ entry }) => entry)
    const remote = entries.filter(({ podId, ended }) => podId !== own && ended === undefined)
    const silences = await this.#heartbeats.beat(new Set(remote.map(({ podId }) => podId)))
    const orphans = remote.filter(
      ({ podId, graceMs }) => (silences.get(podId) ?? 0) >= Math.max(timings.lostMs, graceMs),
    )
    await Promise.all(orphans.map(entry => sync.end(entry, brokerLostEnd)))
    if (!this.#synced) await this.#readAll()
    await this.#refreshExpiries()
  }

  async #readAll(): Promise<void> {
    const { setup, sync } = this.#options
    if (!this.#checked) this.#unsupported = await findUnsupported(setup)
    if (this.#unsupported !== '') return
    this.#checked = true
    await sync.readAll()
    this.#synced = true
    this.#lastError = ''
    this.#updateHealth()
  }

  /** Renews the expiries of running requests of this broker when they are due. */
  async #refreshExpiries(): Promise<void> {
    const { setup, directory } = this.#options
    const { keys, commands, clock, timings } = setup
    const nowMs = clock.monotonicMs()
    if (nowMs - this.#refreshedMs < timings.orphanMs / refreshesPerExpiry) return
    this.#refreshedMs = nowMs
    const names = directory
      .running()
      .flatMap(({ entry: { key } }) => [keys.entries(key), keys.header(key), keys.producer(key)])
    await Promise.all(names.map(name => commands.call('PEXPIRE', name, timings.orphanMs)))
  }

  /** Returns a function that starts the work, or does nothing while the work is in progress. */
  #oneAtATime(work: () => Promise<void>): () => void {
    let busy = false
    return () => {
      if (busy) return
      busy = true
      work()
        .catch((error: Error) => {
          this.#lastError = `Redis: ${error.message}`
        })
        .finally(() => {
          busy = false
        })
    }
  }

  #resetDeadlines(): void {
    this.#heartbeats.resetDeadlines()
    for (const { readers } of this.#options.directory.running()) readers.resetDeadlines()
  }

  #updateHealth(): void {
    const { setup, reads } = this.#options
    const healthy = setup.commands.ready && reads.ready && this.#synced
    if (healthy === this.#healthy) return
    this.#healthy = healthy
    for (const listener of this.#listeners) listener(healthy)
  }
}

/**
 * The expiry of a heartbeat as a multiple of `lostMs`. It removes the heartbeats of brokers that have
 * stopped.
 */
const expiryFactor = 3

/**
 * A heartbeat is an increasing counter. Each reader measures, by its own clock, how long a counter has not
 * changed, in reads that Redis has answered: neither a difference between clocks nor an unavailable Redis
 * makes a broker seem lost.
 */
class PodHeartbeats {
  readonly #setup: RedisLogSetup
  readonly #seen = new Map<string, { readonly count: string; readonly sinceMs: number }>()
  #count = 0
  #answers = 0
  #checkedMs = 0

  constructor(setup: RedisLogSetup) {
    this.#setup = setup
  }

  /**
   * Sends the heartbeat. Resolves with the milliseconds for which the heartbeat of each other broker has not
   * changed.
   */
  async beat(others: ReadonlySet<string>): Promise<ReadonlyMap<string, number>> {
    const { clock, timings } = this.#setup
    await this.#send()
    // If the whole system was paused after the last read, the other brokers could not send a heartbeat.
    if (clock.monotonicMs() - this.#checkedMs > timings.lostMs / 2) this.resetDeadlines()
    this.#checkedMs = clock.monotonicMs()
    for (const other of this.#seen.keys()) if (!others.has(other)) this.#seen.delete(other)
    const silences = [...others].map(async other => [other, await this.#readSilence(other)] as const)
    return new Map(await Promise.all(silences))
  }

  /** Starts all timeouts again: this broker could not read heartbeats. */
  resetDeadlines(): void {
    this.#seen.clear()
  }

  /** The increased number of answers tells the asking broker that the producer is connected. */
  async answer(): Promise<void> {
    this.#answers += 1
    await this.#send()
  }

  async deregister(): Promise<void> {
    const { podId, keys, commands } = this.#setup
    await commands.call('DEL', keys.heartbeat(podId), keys.inbox(podId))
  }

  async #send(): Promise<void> {
    const { podId, keys, commands, timings } = this.#setup
    this.#count += 1
    const names = [keys.heartbeat(podId), keys.inbox(podId)]
    const values = [`${this.#count} ${this.#answers}`, timings.lostMs * expiryFactor]
    await commands.runScript(heartbeatScript, names, values)
  }

  async #readSilence(other: string): Promise<number> {
    const { keys, commands, clock } = this.#setup
    const count = String(await commands.call('GET', keys.heartbeat(other)))
    const last = this.#seen.get(other)
    const nowMs = clock.monotonicMs()
    if (last?.count === count) return nowMs - last.sinceMs
    this.#seen.set(other, { count, sinceMs: nowMs })
    return 0
  }
}

/** The first version with XADD NOMKSTREAM and XTRIM MINID. */
const neededVersion = '6.2'

/**
 * Returns the required version as text; empty if Redis has the commands. The commands are tested, not the
 * version: other servers with the protocol have versions of their own. Errors of another kind, such as a lack
 * of memory, are ignored.
 */
async function findUnsupported({ keys, commands }: RedisLogSetup): Promise<string> {
  try {
    await commands.runScript(probeScript, [keys.probe])
    return ''
  } catch (error) {
    if (!/invalid stream id|syntax error|wrong number|unknown/i.test((error as Error).message)) return ''
    const info = await commands.call('INFO', 'server').catch(() => '')
    const version = /^redis_version:(\S+)/m.exec(String(info))?.[1] ?? 'older'
    const commandsNeeded = 'XADD NOMKSTREAM, XTRIM MINID'
    return `Redis ${neededVersion} or later is needed (${commandsNeeded}), this one is ${version}`
  }
}
