import type { RequestEnd } from '../../stream-log.ts'
import type { RedisConnection } from '../connection.ts'
import { findUnsupported } from '../find-unsupported.ts'
import type { RedisLogSetup } from '../setup.ts'
import type { Directory } from './directory.ts'
import type { DirectorySync } from './directory-sync.ts'
import { Pods } from './pods.ts'

export interface HeartbeatOptions {
  readonly setup: RedisLogSetup
  readonly reads: RedisConnection
  readonly directory: Directory
  readonly sync: DirectorySync
}

const lostBroker: RequestEnd = {
  how: 'lost',
  status: { code: 'ERROR', message: "the producer's broker was lost" },
}
/** The expiry of a running request in Redis is renewed this number of times before it passes. */
const refreshesPerExpiry = 3

/** The periodic work of a broker in Redis, and its health. */
export class Heartbeat {
  readonly #options: HeartbeatOptions
  readonly #pods: Pods
  readonly #listeners = new Set<(healthy: boolean) => void>()
  readonly #stopTimers: readonly (() => void)[]
  /** Redis supports the commands of the log. The next connection may lead to another server. */
  #checked = false
  #unsupported = ''
  #synced = false
  #healthy = false
  #lastError = ''
  #awaySinceMs: number | undefined
  #refreshedMs: number

  constructor(options: HeartbeatOptions) {
    const { setup, reads } = options
    const { commands, clock, repeat, timings } = setup
    this.#options = options
    this.#pods = new Pods(setup)
    this.#refreshedMs = clock.monotonicMs()
    this.#awaySinceMs = this.#refreshedMs
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
      this.#awaySinceMs = ready ? undefined : (this.#awaySinceMs ?? clock.monotonicMs())
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

  /** The required version if Redis is too old for the log; empty otherwise. */
  get unsupported(): string {
    return this.#unsupported
  }

  onHealth(listener: (healthy: boolean) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Returns the time since reads have failed; 0 if they work. */
  readsAwayMs(): number {
    return this.#awaySinceMs === undefined ? 0 : this.#options.setup.clock.monotonicMs() - this.#awaySinceMs
  }

  /** The process was paused: all timeouts start again. */
  extendDeadlinesAfterStall(): void {
    const { setup, directory } = this.#options
    this.#resetDeadlines()
    for (const local of directory.running()) local.extendDeadlinesAfterStall()
    if (this.#awaySinceMs !== undefined) this.#awaySinceMs = setup.clock.monotonicMs()
  }

  /** Answers other brokers that the producer of a request is connected. */
  answer(): void {
    this.#pods.answer().catch(() => {})
  }

  /** Deregisters this broker. */
  async close(): Promise<void> {
    for (const stop of this.#stopTimers) stop()
    this.#listeners.clear()
    if (this.#options.setup.commands.ready) await this.#pods.deregister().catch(() => {})
  }

  async #beat(): Promise<void> {
    const { setup, directory, sync } = this.#options
    const { podId: own, timings } = setup
    const entries = directory.all().map(({ entry }) => entry)
    const remote = entries.filter(({ podId, ended }) => podId !== own && ended === undefined)
    const silences = await this.#pods.beat(new Set(remote.map(({ podId }) => podId)))
    const orphans = remote.filter(
      ({ podId, graceMs }) => (silences.get(podId) ?? 0) >= Math.max(timings.lostMs, graceMs),
    )
    await Promise.all(orphans.map(entry => sync.end(entry, lostBroker)))
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

  /** Renews the expiry of this broker's requests in Redis; without it they expire. */
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

  /** Returns a function that does not start the work while it is in progress. */
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
    this.#pods.resetDeadlines()
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
