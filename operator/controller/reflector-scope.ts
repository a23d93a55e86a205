import { createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { ReflectorSource, ReflectorTiming, WatchedEvent } from './reflector.ts'
import { isOlderVersion, type ObjectStore, type ReflectedObject } from './reflector-store.ts'

/** What `followScope` needs to follow one namespace, or all namespaces together. */
interface Scope<T extends ReflectedObject> {
  readonly source: ReflectorSource<T>
  readonly namespace: string | undefined
  readonly store: ObjectStore<T>
  readonly keep: (object: T) => T
  readonly timing: ReflectorTiming
  readonly clock: Clock
  readonly random: () => number
  readonly onError: (error: unknown, retryMs: number) => void
  /**
   * Called when the scope works again after errors: at a list, an event, the orderly end of a watch, or a
   * watch that was open for `steadyWatchMs`.
   */
  readonly onRecovered: () => void
  readonly onFirstList: () => void
  readonly signal: AbortSignal
  /** Rejects when the signal aborts. */
  readonly pause: (waitMs: number) => Promise<void>
}

const pageLimit = 500

/** Repeats a list and then watches from its version. Resolves when the signal aborts; never rejects. */
export async function followScope<T extends ReflectedObject>(scope: Scope<T>): Promise<void> {
  const { timing, clock, random, signal, pause } = scope
  const waits = { initialMs: timing.retryInitialMs, maxMs: timing.retryMaxMs, factor: 2, jitter: 0.5 }
  const backoff = createBackoff({ ...waits, random })
  const progress = createProgress(scope)
  let failures = 0
  let nextWatchMs = 0
  const untilNextWatchMs = () => Math.max(0, nextWatchMs - clock.monotonicMs())
  let hasFailed = false
  const recovered = () => {
    if (hasFailed) scope.onRecovered()
    hasFailed = false
  }
  const onSuccess = () => {
    failures = 0
    backoff.reset()
    recovered()
  }

  async function follow(): Promise<void> {
    if (progress.mustList()) {
      await progress.list()
      recovered()
    }
    nextWatchMs = clock.monotonicMs() + timing.watchSpacingMs
    const steady = setTimeout(recovered, timing.steadyWatchMs)
    try {
      await watch(scope, progress.version(), event => {
        progress.take(event)
        onSuccess()
      })
    } finally {
      clearTimeout(steady)
    }
    onSuccess()
    await pause(untilNextWatchMs())
  }

  while (!signal.aborted) {
    try {
      await follow()
    } catch (error) {
      if (signal.aborted) return
      failures += 1
      hasFailed = true
      if (isGone(error) || failures >= timing.failuresBeforeList) progress.demandList()
      const spreadMs = isGone(error) ? random() * timing.relistSpreadMs : 0
      const retryMs = Math.max(backoff.nextMs() + retryAfterMs(error), untilNextWatchMs(), spreadMs)
      scope.onError(error, retryMs)
      await pause(retryMs).catch(() => {})
    }
  }
}

function createProgress<T extends ReflectedObject>(scope: Scope<T>) {
  const { source, namespace, store, keep, timing, clock, random, signal } = scope
  /** The newest resourceVersion that was seen; undefined before the first list. */
  let seen: string | undefined
  let listDemanded = true
  let listDueMs = 0
  let staleSinceMs: number | undefined

  /**
   * Throws when the list is older than the version that was seen. A server with an outdated cache sends such
   * a list, which would remove new objects.
   */
  function rejectStale(resourceVersion: string): void {
    if (seen === undefined || !isOlderVersion(resourceVersion, seen)) {
      staleSinceMs = undefined
      return
    }
    const nowMs = clock.monotonicMs()
    staleSinceMs ??= nowMs
    if (nowMs - staleSinceMs < timing.staleListMs) {
      throw new Error(`the list is of resourceVersion ${resourceVersion}, and ${seen} has been seen`)
    }
    // The server was restored from a backup and counts versions anew. Versions of known objects cannot be
    // compared with the new ones, so the known objects are dropped.
    store.replace(namespace, [])
    staleSinceMs = undefined
  }

  return {
    mustList: () => listDemanded || clock.monotonicMs() >= listDueMs,
    demandList() {
      listDemanded = true
    },
    version: () => seen ?? '',
    async list(): Promise<void> {
      const items: T[] = []
      let more: string | undefined
      let resourceVersion: string
      do {
        const page = await source.list({ namespace, limit: pageLimit, continue: more, signal })
        for (const item of page.items) items.push(keep(item))
        resourceVersion = page.resourceVersion
        more = page.continue
      } while (more !== undefined)
      signal.throwIfAborted()
      rejectStale(resourceVersion)
      store.replace(namespace, items)
      if (seen === undefined) scope.onFirstList()
      seen = resourceVersion
      listDemanded = false
      listDueMs = clock.monotonicMs() + timing.relistMs * (0.9 + 0.2 * random())
    },
    /** Ignores an event older than `seen`: it is a repetition, and its object may have been deleted since. */
    take({ type, object }: WatchedEvent<T>): void {
      const version = object.metadata.resourceVersion ?? ''
      if (seen !== undefined && isOlderVersion(version, seen)) return
      if (type === 'DELETED') store.remove(object)
      else if (type !== 'BOOKMARK') store.put(keep(object))
      if (version !== '') seen = version
    },
  }
}

/**
 * Watches until the server ends the watch, or until it is silent or overdue. Rejects when the connection
 * breaks.
 */
async function watch<T extends ReflectedObject>(
  scope: Scope<T>,
  resourceVersion: string,
  onEvent: (event: WatchedEvent<T>) => void,
): Promise<void> {
  const { source, namespace, timing, random, signal } = scope
  const { shortestWatchSeconds, longestWatchSeconds, watchGraceMs, silentWatchMs } = timing
  const choices = longestWatchSeconds - shortestWatchSeconds + 1
  const timeoutSeconds = shortestWatchSeconds + Math.floor(random() * choices)
  const ending = new AbortController()
  const end = () => ending.abort(signal.reason)
  const overdue = setTimeout(end, timeoutSeconds * 1000 + watchGraceMs)
  const silent = setTimeout(end, silentWatchMs)
  signal.addEventListener('abort', end)
  try {
    const events = source.watch({ namespace, resourceVersion, timeoutSeconds, signal: ending.signal })
    for await (const event of events) {
      if (signal.aborted) return
      silent.refresh()
      onEvent(event)
    }
  } catch (error) {
    // A watch that was ended here, as silent or overdue, counts as ended in order. If the server is out of
    // reach, the next watch fails.
    if (!ending.signal.aborted || signal.aborted) throw error
  } finally {
    clearTimeout(overdue)
    clearTimeout(silent)
    signal.removeEventListener('abort', end)
  }
}

/** Returns whether the API server no longer has the requested resourceVersion. */
function isGone(error: unknown): boolean {
  return (error as { readonly code?: unknown } | undefined)?.code === 410
}

function retryAfterMs(error: unknown): number {
  const { retryAfterMs } = (error ?? {}) as { readonly retryAfterMs?: unknown }
  return typeof retryAfterMs === 'number' ? retryAfterMs : 0
}
