import type { ServerResponse } from 'node:http'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Repeat } from '../stream-log/repeat.ts'
import type { Broker } from '../streams/broker.ts'
import { PageError } from './admin-errors.ts'
import { type StreamView, streamViews } from './streams-page.ts'

interface StreamWatchOptions {
  readonly broker: Pick<Broker, 'requests'>
  readonly clock: Pick<Clock, 'nowMs' | 'monotonicMs'>
  readonly repeat: Repeat
}

type StreamEvent =
  | { readonly event: 'running' | 'begun' | 'changed' | 'ended'; readonly stream: StreamView }
  /**
   * `missed`: changes were left out, and the running requests follow again. `alive`: nothing has changed, but
   * a line shows callers that the connection is not lost.
   */
  | { readonly event: 'synced' | 'missed' | 'alive' }

const maxWatchers = 32
const sampleEveryMs = 250
const aliveEveryMs = 15_000
/** Callers that read nothing for this time are cut off. */
const stalledMs = 60_000

interface Watcher {
  readonly response: ServerResponse
  readonly isAllowed: () => boolean
  sentMs: number
  missed: boolean
}

/** Sends running requests and their changes to the callers that watch. */
export class StreamWatch {
  readonly #options: StreamWatchOptions
  readonly #watchers = new Set<Watcher>()
  #known: ReadonlyMap<string, StreamView> = new Map()
  #stopSampling = () => {}

  constructor(options: StreamWatchOptions) {
    this.#options = options
  }

  /**
   * Sends lines of JSON until the caller ends the call: `running` for each running request, `synced`, then
   * `begun`, `changed` or `ended` for each change. A caller that does not read gets no changes; when it reads
   * again, it gets `missed` and the running requests again.
   *
   * @param isAllowed checked at each change; the answer ends when it returns false
   * @throws PageError if as many calls as are allowed already watch
   */
  add(response: ServerResponse, isAllowed: () => boolean = () => true): void {
    if (this.#watchers.size >= maxWatchers) {
      throw new PageError('too-many-watches', `expected at most ${maxWatchers} watches, and all of them run`)
    }
    const watcher = { response, isAllowed, sentMs: 0, missed: false }
    response.writeHead(200, { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' })
    response.once('close', () => this.#remove(watcher))
    // The new watcher begins with a new sample; the others get the changes up to it.
    if (this.#watchers.size > 0) this.#tick()
    else {
      this.#known = this.#sample()
      this.#stopSampling = this.#options.repeat(sampleEveryMs, () => this.#tick())
    }
    this.#watchers.add(watcher)
    this.#sendRunning(watcher, [])
  }

  #remove(watcher: Watcher): void {
    this.#watchers.delete(watcher)
    if (this.#watchers.size > 0) return
    this.#stopSampling()
    this.#known = new Map()
  }

  #sample(): ReadonlyMap<string, StreamView> {
    const { broker, clock } = this.#options
    return new Map(streamViews(broker, clock.nowMs()).map(view => [view.key, view]))
  }

  #tick(): void {
    const now = this.#sample()
    const changes = findChanges(this.#known, now)
    this.#known = now
    for (const watcher of [...this.#watchers]) this.#sendChanges(watcher, changes)
  }

  #sendRunning(watcher: Watcher, first: readonly StreamEvent[]): void {
    const running = [...this.#known.values()].filter(({ ended }) => !ended)
    const events = running.map(stream => ({ event: 'running', stream }) as const)
    this.#write(watcher, [...first, ...events, { event: 'synced' }])
  }

  #sendChanges(watcher: Watcher, changes: readonly StreamEvent[]): void {
    const { response } = watcher
    const silentMs = this.#options.clock.monotonicMs() - watcher.sentMs
    if (!watcher.isAllowed()) response.end()
    else if (response.writableNeedDrain) {
      watcher.missed ||= changes.length > 0
      if (silentMs > stalledMs) response.destroy()
    } else if (watcher.missed) {
      watcher.missed = false
      this.#sendRunning(watcher, [{ event: 'missed' }])
    } else if (changes.length > 0) this.#write(watcher, changes)
    else if (silentMs > aliveEveryMs) this.#write(watcher, [{ event: 'alive' }])
  }

  #write(watcher: Watcher, events: readonly StreamEvent[]): void {
    watcher.sentMs = this.#options.clock.monotonicMs()
    watcher.response.write(events.map(event => `${JSON.stringify(event)}\n`).join(''))
  }
}

/** Returns the changes in the order of the requests. */
function findChanges(
  before: ReadonlyMap<string, StreamView>,
  now: ReadonlyMap<string, StreamView>,
): readonly StreamEvent[] {
  return [...now.values()].flatMap((stream): readonly StreamEvent[] => {
    const earlier = before.get(stream.key)
    const begun = earlier === undefined ? [{ event: 'begun', stream } as const] : []
    if (stream.ended) return earlier?.ended === true ? [] : [...begun, { event: 'ended', stream }]
    if (earlier === undefined || !isChanged(earlier, stream)) return begun
    return [{ event: 'changed', stream }]
  })
}

/**
 * Returns whether two views differ. The progress of a request does not count, since it changes all the time.
 */
function isChanged(earlier: StreamView, now: StreamView): boolean {
  return earlier.producer !== now.producer || earlier.consumers.length !== now.consumers.length
}
