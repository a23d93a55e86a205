import { setTimeout as pause } from 'node:timers/promises'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { followScope } from './reflector-scope.ts'
import { createObjectStore, type ObjectStore, type ReflectedObject } from './reflector-store.ts'

/**
 * The source of the objects of one kind. An error with `code` 410 means that the resourceVersion is too old.
 * An error with `retryAfterMs` states the wait that the server asks for.
 */
export interface ReflectorSource<T extends ReflectedObject> {
  /**
   * Resolves with one page; its `continue` requests the next page. All pages show the state at the same time.
   */
  list(request: ReflectorListRequest): Promise<ListedPage<T>>
  /**
   * Yields the events after `resourceVersion`, with bookmarks. Ends when the server or the signal ends it.
   */
  watch(request: ReflectorWatchRequest): AsyncIterable<WatchedEvent<T>>
}

interface ReflectorListRequest {
  /** The namespace to list; undefined for all namespaces. */
  readonly namespace?: string | undefined
  readonly limit: number
  readonly continue?: string | undefined
  readonly signal: AbortSignal
}

interface ListedPage<T extends ReflectedObject> {
  readonly items: readonly T[]
  readonly resourceVersion: string
  readonly continue?: string
}

interface ReflectorWatchRequest {
  readonly namespace?: string | undefined
  readonly resourceVersion: string
  readonly timeoutSeconds: number
  readonly signal: AbortSignal
}

export interface WatchedEvent<T extends ReflectedObject> {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK'
  readonly object: T
}

/** Keeps a copy of the objects of one kind, and reconnects after each failure of the API server. */
export interface Reflector<T extends ReflectedObject> extends Pick<ObjectStore<T>, 'get' | 'list'> {
  /** Whether every namespace has been listed once. Until then, a missing object may exist. */
  hasSynced(): boolean
  /**
   * Resolves with true when every namespace has been listed, or with false when the reflector was stopped
   * before.
   */
  synced(): Promise<boolean>
  /**
   * Calls the listener with the namespace and name of each object that changes. The listener must not throw.
   */
  onChange(listener: (namespace: string, name: string) => void): void
  /** Ends all watches. No object changes after it has resolved. */
  stop(): Promise<void>
}

interface ReflectorOptions<T extends ReflectedObject> {
  readonly source: ReflectorSource<T>
  readonly namespaces: readonly string[] | 'all'
  /**
   * Returns the part of an object to keep, for example without `managedFields`. By default the whole object
   * is kept.
   */
  readonly keep?: (object: T) => T
  /** Called after each failure with the error and the delay before the next attempt. */
  readonly onError: (error: unknown, retryMs: number) => void
  /** Called when every namespace that had failed is followed again. */
  readonly onRecovered?: () => void
  readonly random: () => number
  readonly clock?: Clock
  readonly timing?: Partial<ReflectorTiming>
}

export interface ReflectorTiming {
  /** The shortest duration of a watch. Each watch requests a random duration in whole seconds. */
  readonly shortestWatchSeconds: number
  readonly longestWatchSeconds: number
  /** The reflector ends a watch that exceeds its requested duration by this time. */
  readonly watchGraceMs: number
  /**
   * The reflector ends a watch that has had no event and no bookmark for this time, because its server may
   * hang. A kube-apiserver sends the first bookmark after two minutes, and then one each minute.
   */
  readonly silentWatchMs: number
  /**
   * A watch without an event counts as successful after this time, which exceeds the time limit of a request.
   */
  readonly steadyWatchMs: number
  /**
   * The shortest time between the starts of two watches. It protects a server that ends every watch at once.
   */
  readonly watchSpacingMs: number
  /**
   * The waits between failed attempts grow between these bounds; half of each is random. An event resets
   * them.
   */
  readonly retryInitialMs: number
  readonly retryMaxMs: number
  /**
   * Every watch receives a 410 at the same time. Each one then waits a random time up to this before it
   * lists.
   */
  readonly relistSpreadMs: number
  /** After this number of failed watches in a row without an event, all objects are listed again. */
  readonly failuresBeforeList: number
  /**
   * A watch that ends this time after the last list, or later, is followed by a new list, in case events were
   * lost.
   */
  readonly relistMs: number
  /**
   * A list that is older than known objects is rejected for this time. Then it is accepted, because etcd may
   * have been restored from a backup.
   */
  readonly staleListMs: number
}

const defaultTiming: ReflectorTiming = {
  shortestWatchSeconds: 300,
  longestWatchSeconds: 600,
  watchGraceMs: 5_000,
  silentWatchMs: 150_000,
  steadyWatchMs: 12_000,
  watchSpacingMs: 1_000,
  retryInitialMs: 250,
  retryMaxMs: 8_000,
  relistSpreadMs: 3_000,
  failuresBeforeList: 5,
  relistMs: 600_000,
  staleListMs: 180_000,
}

/** Creates a reflector that follows the objects from now on until `stop`. */
export function createReflector<T extends ReflectedObject>(options: ReflectorOptions<T>): Reflector<T> {
  const { source, namespaces, keep = object => object, onError, random, clock = systemClock } = options
  const scopes = namespaces === 'all' ? [undefined] : [...new Set(namespaces)]
  const store = createObjectStore<T>()
  const stopping = new AbortController()
  const { promise: synced, resolve: resolveSynced } = Promise.withResolvers<boolean>()
  let unlisted = scopes.length
  if (unlisted === 0) resolveSynced(true)

  const timing = { ...defaultTiming, ...options.timing }
  const failing = new Set<string | undefined>()
  const following = scopes.map(namespace =>
    followScope({
      source,
      namespace,
      store,
      keep,
      timing,
      clock,
      random,
      onError(error, retryMs) {
        failing.add(namespace)
        onError(error, retryMs)
      },
      onRecovered() {
        failing.delete(namespace)
        if (failing.size === 0) options.onRecovered?.()
      },
      onFirstList() {
        unlisted -= 1
        if (unlisted === 0) resolveSynced(true)
      },
      signal: stopping.signal,
      pause: waitMs => pause(waitMs, undefined, { signal: stopping.signal }),
    }),
  )

  return {
    get: store.get,
    list: store.list,
    onChange: store.onChange,
    hasSynced: () => unlisted === 0,
    synced: () => synced,
    async stop() {
      stopping.abort()
      await Promise.all(following)
      resolveSynced(false)
    },
  }
}
