import { type AnimationIds, idsKey, matchesIds } from '../../wire/animation-ids.ts'
import { EndedRequests } from '../ended-requests.ts'
import type { EndListener, LoggedRequest, LogWriter, RequestEnd, StoredProgress } from '../stream-log.ts'
import type { DirectoryEntry } from './directory-entry.ts'
import { type LocalRequest, logUnavailableEnd } from './local-request.ts'
import type { PositionReport, PositionReports } from './position-reports.ts'
import type { ReadLoop } from './read-loop.ts'
import type { RemoteRequestContext } from './remote-request.ts'
import { forgetScript } from './scripts.ts'
import { endGraceMs, type RedisLogSetup } from './setup.ts'
import { type Hosted, SharedRequest } from './shared-request.ts'

/**
 * The requests that this broker knows from the directory in Redis.
 *
 * Every source of changes calls `learn`: the stream of changes, the whole directory, a reply to a
 * producer, and the last entry that a reader gets. The directory passes the change to the request, and
 * reports it to watchers and listeners.
 */
export class Directory {
  readonly #setup: RedisLogSetup
  readonly #context: RemoteRequestContext
  readonly #requests = new Map<string, SharedRequest>()
  readonly #watchers = new Set<(request: LoggedRequest) => void>()
  readonly #endListeners = new Set<EndListener>()
  /** The keys of requests that are about to run at this broker, with the work that leads to it. */
  readonly #beginning = new Map<string, Promise<unknown>>()
  /** The ended requests of this broker's producers, which Redis stores within the budget. */
  readonly #ended: EndedRequests

  constructor(setup: RedisLogSetup, loop: ReadLoop, reports: PositionReports) {
    this.#setup = setup
    this.#context = { setup, loop, reports, apply: entry => void this.apply(entry) }
    this.#ended = new EndedRequests(setup.clock.nowMs, setup.budget.limit / 2)
  }

  get(key: string): SharedRequest | undefined {
    return this.#requests.get(key)
  }

  /** Oldest first. */
  all(): readonly SharedRequest[] {
    return [...this.#requests.values()].sort((a, b) => a.entry.epoch - b.entry.epoch)
  }

  /** The requests whose producers are at this broker. */
  running(): readonly LocalRequest[] {
    return [...this.#requests.values()].flatMap(({ running }) => running ?? [])
  }

  /** Reports the known requests, oldest first, then each new one. */
  watch(wanted: AnimationIds, onRequest: (request: LoggedRequest) => void): () => void {
    const report = (request: LoggedRequest) => {
      if (matchesIds(wanted, request.ids)) onRequest(request)
    }
    for (const request of this.all()) report(request)
    this.#watchers.add(report)
    return () => this.#watchers.delete(report)
  }

  onEnd(listener: EndListener): () => void {
    this.#endListeners.add(listener)
    return () => this.#endListeners.delete(listener)
  }

  /**
   * Reports a new request to the watchers, unless it ended too long ago; updates the owner and the end of
   * a known one.
   */
  apply(entry: DirectoryEntry): void {
    const known = this.#requests.get(entry.key)
    if (known === undefined) {
      this.#add(new SharedRequest(this.#context, entry))
      return
    }
    const learned = known.update(entry)
    if (learned === undefined) return
    if (learned.storedBytes > 0) this.#keep(known, learned.storedBytes)
    this.#reportEnd(known, entry.ended?.by, learned.end, learned.progress)
  }

  /** Begins a request with its producer at this broker. */
  host(entry: DirectoryEntry, hosted: Hosted): LogWriter {
    const known = this.#requests.get(entry.key)
    if (known !== undefined) return known.host(entry, hosted)
    const request = new SharedRequest(this.#context, entry)
    const writer = request.host(entry, hosted)
    this.#add(request)
    return writer
  }

  /**
   * Until the work is done, a request with this key that is about to run here is not treated as lost. One
   * work at a time for each key.
   */
  async runExclusively<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#beginning.get(key) ?? Promise.resolve()
    const done = before.then(work, () => work())
    this.#beginning.set(key, done)
    try {
      return await done
    } finally {
      if (this.#beginning.get(key) === done) this.#beginning.delete(key)
    }
  }

  /**
   * Returns the end of a request that is running according to Redis, but no longer at this broker, its
   * owner.
   */
  findUnstoredEnd({ key }: DirectoryEntry): RequestEnd | undefined {
    if (this.#beginning.has(key)) return undefined
    const known = this.#requests.get(key)
    // An unknown request began when the connection was lost, and has no producer.
    return known === undefined ? logUnavailableEnd : known.findUnstoredEnd()
  }

  /** Redis has lost the request. The broker of its producer reports the end. */
  removeLost(key: string): void {
    const known = this.#requests.get(key)
    if (known === undefined) return
    const { ended, podId } = known.entry
    this.#requests.delete(key)
    const { end, progress } = known.discardLost()
    if (ended === undefined) this.#reportEnd(known, podId, end, progress)
  }

  /** Takes the reports of another broker about its readers. */
  takeReports(podId: string, reports: readonly PositionReport[]): void {
    for (const [key, position] of reports) {
      this.#requests.get(key)?.running?.readers.report(podId, position ?? undefined)
    }
  }

  /** Checks the timeouts of all requests, and forgets those that ended long enough ago. */
  tick(): void {
    const nowMs = this.#setup.clock.nowMs()
    for (const request of this.#requests.values()) {
      if (request.forgetAtMs <= nowMs) this.#forget(request)
      else request.tick()
    }
    this.#ended.sweep()
  }

  /** Ends the reading from other brokers, because Redis is unavailable. */
  closeRemote(): void {
    for (const request of this.#requests.values()) request.closeRemote()
  }

  /** Stops all reports of new requests. */
  close(): void {
    this.#watchers.clear()
  }

  #add(request: SharedRequest): void {
    if (request.forgetAtMs <= this.#setup.clock.nowMs()) return
    this.#requests.set(request.key, request)
    for (const report of [...this.#watchers]) report(request)
  }

  #forget(request: SharedRequest): void {
    this.#requests.delete(request.key)
    request.forget()
  }

  /** Reports the end to listeners, if this broker gave it. */
  #reportEnd(
    request: SharedRequest,
    by: string | undefined,
    ...end: [RequestEnd, StoredProgress | undefined]
  ): void {
    if (by !== this.#setup.podId) return
    for (const report of this.#endListeners) report(request, ...end)
  }

  /**
   * Adds the stored bytes of an ended request to the budget, and removes it from Redis when later ones need
   * the room.
   */
  #keep(request: SharedRequest, bytes: number): void {
    const { budget, clock } = this.#setup
    budget.spend(bytes)
    this.#ended.add({
      bytes,
      untilMs: clock.nowMs() + request.entry.limits.keepMs + endGraceMs,
      forget: early => {
        budget.spend(-bytes)
        if (early) this.#discard(request).catch(() => {})
      },
    })
  }

  /** Messages that are not discarded expire a little later. */
  async #discard(request: SharedRequest): Promise<void> {
    const { keys, commands } = this.#setup
    const { key, entry } = request
    this.#forget(request)
    await commands.call('UNLINK', keys.entries(key), keys.header(key), keys.producer(key))
    await removeExpired(this.#setup, entry)
  }
}

/** Removes a request from the directory in Redis if its messages have expired there. */
export async function removeExpired({ keys, commands }: RedisLogSetup, entry: DirectoryEntry): Promise<void> {
  const { key, ids } = entry
  const names = [keys.entries(key), keys.requests, keys.running]
  await commands.call('EVAL', forgetScript, names.length, ...names, idsKey(ids), key)
}
