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
 * The known requests of the directory in Redis. Every source of changes calls `apply`: the stream of changes,
 * the read of the whole, the reply to a producer's command, and the last entry that a reader gets. It passes
 * the change to the request, and reports it to watchers and listeners.
 */
export class Directory {
  readonly #setup: RedisLogSetup
  readonly #context: RemoteRequestContext
  readonly #requests = new Map<string, SharedRequest>()
  readonly #watchers = new Set<(request: LoggedRequest) => void>()
  readonly #endListeners = new Set<EndListener>()
  /** The work that begins or continues a request here, by key. */
  readonly #beginning = new Map<string, Promise<unknown>>()
  /** Ended requests whose producers were here. The budget limits what Redis stores of them. */
  readonly #ended: EndedRequests

  constructor(setup: RedisLogSetup, loop: ReadLoop, reports: PositionReports) {
    this.#setup = setup
    this.#context = { setup, loop, reports, apply: entry => void this.apply(entry) }
    this.#ended = new EndedRequests(setup.clock.nowMs, setup.budget.limit / 2)
  }

  get(key: string): SharedRequest | undefined {
    return this.#requests.get(key)
  }

  /** All known requests, oldest first. */
  all(): readonly SharedRequest[] {
    return [...this.#requests.values()].sort((a, b) => a.entry.epoch - b.entry.epoch)
  }

  /** Returns the running requests whose producers are here. */
  running(): readonly LocalRequest[] {
    return [...this.#requests.values()].flatMap(({ running }) => running ?? [])
  }

  /** See `StreamLog.watch`. */
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
   * Applies an entry. A new request is reported to the watchers, unless it ended too long ago; a known
   * request gets the new owner or the end.
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

  /** Begins or continues a request whose producer is at this broker. */
  host(entry: DirectoryEntry, hosted: Hosted): LogWriter {
    const known = this.#requests.get(entry.key)
    if (known !== undefined) return known.host(entry, hosted)
    const request = new SharedRequest(this.#context, entry)
    const writer = request.host(entry, hosted)
    this.#add(request)
    return writer
  }

  /**
   * Runs work that begins or continues a request here, one after the other for each key. Meanwhile,
   * `findUnstoredEnd` does not treat the request as lost.
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
   * Returns the end to store for a request that runs in Redis with this broker as its owner, but has no
   * producer here. Undefined if the producer is here, or about to be.
   */
  findUnstoredEnd({ key }: DirectoryEntry): RequestEnd | undefined {
    if (this.#beginning.has(key)) return undefined
    const known = this.#requests.get(key)
    // An unknown request began while the connection was lost: it has no producer.
    return known === undefined ? logUnavailableEnd : known.findUnstoredEnd()
  }

  /** Removes a request that Redis has lost. The broker of its producer reports the end. */
  removeLost(key: string): void {
    const known = this.#requests.get(key)
    if (known === undefined) return
    const { ended, podId } = known.entry
    this.#requests.delete(key)
    const { end, progress } = known.discardLost()
    if (ended === undefined) this.#reportEnd(known, podId, end, progress)
  }

  /** Takes the positions of readers at another broker. */
  takeReports(podId: string, reports: readonly PositionReport[]): void {
    for (const [key, position] of reports) {
      this.#requests.get(key)?.running?.readers.report(podId, position ?? undefined)
    }
  }

  /** Checks timeouts, and forgets requests that ended long enough ago. */
  tick(): void {
    const nowMs = this.#setup.clock.nowMs()
    for (const request of this.#requests.values()) {
      if (request.forgetAtMs <= nowMs) this.#forget(request)
      else request.tick()
    }
    this.#ended.sweep()
  }

  /** Closes the requests of other brokers to readers: Redis is unavailable. */
  closeRemote(): void {
    for (const request of this.#requests.values()) request.closeRemote()
  }

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

  /** Reports the end if this broker has given it, which `by` says. */
  #reportEnd(
    request: SharedRequest,
    by: string | undefined,
    ...end: [RequestEnd, StoredProgress | undefined]
  ): void {
    if (by !== this.#setup.podId) return
    for (const report of this.#endListeners) report(request, ...end)
  }

  /** Counts what Redis stores of an ended request, which is removed early if later ones need the room. */
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

  /** Forgets the request and deletes it in Redis. If a command fails, the data expires a little later. */
  async #discard(request: SharedRequest): Promise<void> {
    const { keys, commands } = this.#setup
    const { key, entry } = request
    this.#forget(request)
    await commands.call('UNLINK', keys.entries(key), keys.header(key), keys.producer(key))
    await removeExpired(this.#setup, entry)
  }
}

/** Removes a request from the directory in Redis if its entries have expired there. */
export async function removeExpired({ keys, commands }: RedisLogSetup, entry: DirectoryEntry): Promise<void> {
  const { key, ids } = entry
  const names = [keys.entries(key), keys.requests, keys.running]
  await commands.runScript(forgetScript, names, [idsKey(ids), key])
}
