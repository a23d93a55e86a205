import { isDeepStrictEqual } from 'node:util'
import { KubeApiError } from '../../../operator/environments/kubernetes/api/api-error.ts'
import type { KubeClient } from '../../../operator/environments/kubernetes/api/client.ts'
import type {
  ApiResource,
  KubeObject,
  ObjectKey,
  ObjectVersion,
} from '../../../operator/environments/kubernetes/api/kube-object.ts'
import type { WatchEvent } from '../../../operator/environments/kubernetes/api/transport.ts'
import { Inbox, type Network } from '../engine/network.ts'
import type { SimulatedProcess, Simulation } from '../engine/simulation.ts'

/** The name of the API server in links. */
export const apiName = 'api'

/** The time limit of a call, as that of the operator's client. */
const callTimeoutMs = 10_000
const bookmarkMs = 60_000

interface Change {
  readonly plural: string
  readonly version: number
  readonly event: WatchEvent
}

interface Watcher {
  readonly client: string
  readonly plural: string
  readonly accepts: (object: KubeObject) => boolean
  /** The events that wait for a cut link. */
  readonly held: (() => void)[]
  arrivalMs: number
  readonly deliver: (work: (inbox: Inbox<WatchEvent>) => void) => void
}

/**
 * An API server as its clients see it: objects with versions, preconditions, lists, and watches with all events
 * after a version, or 410 when these are no longer known.
 */
export class SimulatedApiServer {
  /** Called after each accepted change. */
  onChange: (plural: string, object: KubeObject) => void = () => {}
  /** The share of calls that fail with 500, by the name of the client. */
  readonly errorShares = new Map<string, number>()
  /** The age in milliseconds of what lists show, as those of a server with an outdated cache. */
  readonly staleMs = new Map<string, number>()
  readonly #simulation: Simulation
  readonly #network: Network
  readonly #objects = new Map<string, Map<string, KubeObject>>()
  readonly #changes: (Change & { readonly atMs: number })[] = []
  readonly #watchers = new Set<Watcher>()
  /** Those whose events wait for a cut link. */
  readonly #holding = new Set<Watcher>()
  readonly #losing = new Map<string, number>()
  #version = 100
  #forgottenVersion = 0
  #calls = 0
  #uids = 0

  constructor(simulation: Simulation, network: Network) {
    this.#simulation = simulation
    this.#network = network
    const remind = () => {
      for (const watcher of this.#watchers) this.#push(watcher, this.#bookmark())
      simulation.after(bookmarkMs, remind)
    }
    simulation.after(bookmarkMs, remind)
  }

  list(plural: string): readonly KubeObject[] {
    return [...(this.#objects.get(plural)?.values() ?? [])]
  }

  find(plural: string, key: ObjectKey): KubeObject | undefined {
    return this.#objects.get(plural)?.get(toKey(key))
  }

  /** Creates or replaces an object as a user, without preconditions. */
  put(plural: string, object: KubeObject): KubeObject {
    return this.#store(plural, object)
  }

  remove(plural: string, key: ObjectKey): void {
    const found = this.find(plural, key)
    if (found === undefined) return
    this.#version += 1
    this.#objects.get(plural)?.delete(toKey(key))
    const object = { ...found, metadata: { ...found.metadata, resourceVersion: `${this.#version}` } }
    this.#announce(plural, { type: 'DELETED', object })
  }

  /** Forgets the past, as etcd does when it compacts: watches from an older version get 410. */
  compact(): void {
    this.#forgottenVersion = this.#version
  }

  /** Ends all watches of a client: in order, with 410, or as a connection that breaks. */
  endWatches(client: string, how: 'orderly' | 'expired' | 'broken'): void {
    for (const watcher of this.#watchers) {
      if (watcher.client !== client) continue
      this.#watchers.delete(watcher)
      const error =
        how === 'expired'
          ? new KubeApiError(410, 'Expired', 'too old resource version')
          : how === 'broken'
            ? new KubeApiError(0, 'Unreachable', 'the answer is incomplete: ECONNRESET')
            : undefined
      watcher.deliver(inbox => inbox.finish(error))
    }
  }

  /** The next events of a client get lost, which no API server does, and reflectors survive nevertheless. */
  loseEvents(client: string, count: number): void {
    this.#losing.set(client, count)
  }

  /** The client gets its last events again. */
  repeatEvents(client: string, count: number): void {
    for (const watcher of this.#watchers) {
      if (watcher.client !== client) continue
      const past = this.#changes.filter(({ plural }) => plural === watcher.plural).slice(-count)
      for (const { event } of past) if (watcher.accepts(event.object)) this.#push(watcher, event)
    }
  }

  /** To be called when a link is whole again. */
  flush(): void {
    for (const watcher of [...this.#holding]) {
      this.#holding.delete(watcher)
      for (const again of watcher.held.splice(0)) again()
    }
  }

  /** Returns the client of a process. */
  client(process: SimulatedProcess): KubeClient {
    const call = <T>(what: string, work: () => T, signal?: AbortSignal) =>
      this.#call(process, what, work, signal)
    const unused = () => Promise.reject(new Error('the simulated API server does not have this call'))
    return {
      get: ({ plural }, key, { signal } = {}) => call(`get ${plural}`, () => this.find(plural, key), signal),
      list: ({ plural }, { namespace, signal }) =>
        call(`list ${plural}`, () => this.#listFor(process.name, plural, namespace), signal),
      watch: (resource, options) => this.#watch(process, resource, options),
      create: ({ plural }, object, { signal } = {}) =>
        call(`create ${plural}`, () => this.#create(plural, object), signal),
      replace: ({ plural }, object, { signal } = {}) =>
        call(`replace ${plural}`, () => this.#replace(plural, object), signal),
      applyStatus: ({ plural }, object, { signal } = {}) =>
        call(`apply status of ${plural}`, () => this.#applyStatus(plural, object), signal),
      delete: ({ plural }, version, { signal } = {}) =>
        call(
          `delete ${plural}`,
          () => {
            const found = this.find(plural, version)
            if (found === undefined) return
            assertVersion(plural, found, version)
            this.remove(plural, version)
          },
          signal,
        ),
      apply: unused,
      setFinalizers: unused,
      review: unused,
      close() {},
    }
  }

  #call<T>(process: SimulatedProcess, what: string, work: () => T, signal?: AbortSignal): Promise<T> {
    if (signal?.aborted) return Promise.reject(signal.reason)
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const end = () => {
      timer.cancel()
      signal?.removeEventListener('abort', onAbort)
    }
    const timer = process.startTimer(() => {
      end()
      reject(new KubeApiError(0, 'Timeout', `${what}: no whole answer within ${callTimeoutMs} ms`))
    }, callTimeoutMs)
    const onAbort = () => {
      end()
      reject(signal?.reason)
    }
    signal?.addEventListener('abort', onAbort)
    this.#network.send(process.name, apiName, () => {
      const answer = this.#answer(process.name, what, work)
      this.#network.send(apiName, process.name, () => {
        process.soon(() => {
          end()
          if ('error' in answer) reject(answer.error)
          else resolve(answer.value)
        })
      })
    })
    return promise
  }

  #answer<T>(
    client: string,
    what: string,
    work: () => T,
  ): { readonly value: T } | { readonly error: unknown } {
    this.#calls += 1
    if (this.#simulation.fraction('api', client, this.#calls) < (this.errorShares.get(client) ?? 0)) {
      return {
        error: new KubeApiError(500, 'InternalError', `${what}: 500 InternalError: etcdserver: timeout`),
      }
    }
    try {
      return { value: work() }
    } catch (error) {
      return { error }
    }
  }

  #listFor(client: string, plural: string, namespace: string | undefined) {
    const ageMs = this.staleMs.get(client) ?? 0
    const isListed = ({ metadata }: KubeObject) => namespace === undefined || metadata.namespace === namespace
    if (ageMs === 0) return { items: this.list(plural).filter(isListed), resourceVersion: `${this.#version}` }
    const past = this.#changes.filter(({ atMs }) => atMs <= Math.max(0, this.#simulation.nowMs - ageMs))
    const objects = new Map<string, KubeObject>()
    for (const { plural: changed, event } of past) {
      if (changed !== plural) continue
      if (event.type === 'DELETED') objects.delete(toKey(event.object.metadata))
      else objects.set(toKey(event.object.metadata), event.object)
    }
    return { items: [...objects.values()].filter(isListed), resourceVersion: `${past.at(-1)?.version ?? 1}` }
  }

  async *#watch(
    process: SimulatedProcess,
    { plural }: ApiResource,
    { namespace, fieldSelector, resourceVersion, timeoutSeconds, signal }: Parameters<KubeClient['watch']>[1],
  ): AsyncGenerator<WatchEvent> {
    signal.throwIfAborted()
    const inbox = new Inbox<WatchEvent>()
    const wantedName = fieldSelector?.replace('metadata.name=', '')
    const { name: client } = process
    const watcher: Watcher = {
      client,
      plural,
      accepts: ({ metadata }) =>
        (namespace === undefined || metadata.namespace === namespace) &&
        (wantedName === undefined || metadata.name === wantedName),
      held: [],
      arrivalMs: 0,
      deliver: work => this.#deliver(watcher, process, () => work(inbox)),
    }
    const opening = process.startTimer(() => {
      inbox.finish(
        new KubeApiError(0, 'Timeout', `watch ${plural}: no whole answer within ${callTimeoutMs} ms`),
      )
    }, callTimeoutMs)
    this.#network.send(client, apiName, () => {
      const since = Number(resourceVersion)
      const isGone = since < this.#forgottenVersion
      const answer = this.#answer(client, `watch ${plural}`, () => {
        if (isGone) throw new KubeApiError(410, 'Expired', 'too old resource version')
      })
      watcher.deliver(() => opening.cancel())
      if ('error' in answer) {
        watcher.deliver(() => inbox.finish(answer.error as Error))
        return
      }
      this.#watchers.add(watcher)
      const missed = this.#changes.filter(change => change.plural === plural && change.version > since)
      for (const { event } of missed) if (watcher.accepts(event.object)) this.#push(watcher, event)
      this.#simulation.after(timeoutSeconds * 1000, () => {
        if (this.#watchers.delete(watcher)) watcher.deliver(() => inbox.finish())
      })
    })
    const onAbort = () => inbox.finish()
    signal.addEventListener('abort', onAbort)
    process.onEnd(() => this.#watchers.delete(watcher))
    try {
      for await (const event of inbox) {
        if (signal.aborted) return
        yield event
      }
    } finally {
      opening.cancel()
      signal.removeEventListener('abort', onAbort)
      this.#watchers.delete(watcher)
    }
  }

  /** The events of a watch keep their order: they come over one connection. */
  #deliver(watcher: Watcher, process: SimulatedProcess, work: () => void): void {
    if (this.#network.faults(apiName, watcher.client).isCut) {
      this.#holding.add(watcher)
      watcher.held.push(() => this.#deliver(watcher, process, work))
      return
    }
    const { nowMs } = this.#simulation
    const atMs = Math.max(watcher.arrivalMs, nowMs + this.#network.nextDelayMs(apiName, watcher.client))
    watcher.arrivalMs = atMs
    process.after(atMs - nowMs, work)
  }

  #push(watcher: Watcher, event: WatchEvent): void {
    const losing = this.#losing.get(watcher.client) ?? 0
    if (losing > 0 && event.type !== 'BOOKMARK') {
      this.#losing.set(watcher.client, losing - 1)
      return
    }
    watcher.deliver(inbox => inbox.put(event))
  }

  #bookmark(): WatchEvent {
    return { type: 'BOOKMARK', object: { metadata: { name: '', resourceVersion: `${this.#version}` } } }
  }

  #create(plural: string, object: KubeObject): KubeObject {
    if (this.find(plural, object.metadata)) {
      throw new KubeApiError(
        409,
        'AlreadyExists',
        `create ${plural} ${object.metadata.name}: 409 AlreadyExists`,
      )
    }
    return this.#store(plural, object)
  }

  #replace(plural: string, object: KubeObject): KubeObject {
    const found = this.find(plural, object.metadata)
    if (found === undefined) throw notFound(plural, object.metadata.name)
    assertVersion(plural, found, object.metadata)
    // The status is written only as such.
    const { status } = found
    const replaced = status === undefined ? object : { ...object, status }
    return isSameContent(found, replaced) ? found : this.#store(plural, replaced)
  }

  #applyStatus(plural: string, { metadata, ...fields }: KubeObject): KubeObject {
    const found = this.find(plural, metadata)
    if (found === undefined) throw notFound(plural, metadata.name)
    // A write of the status passes over the uid.
    const { name, resourceVersion } = metadata
    assertVersion(plural, found, { name, resourceVersion })
    if (JSON.stringify(found['status']) === JSON.stringify(fields['status'])) return found
    return this.#store(plural, { ...found, status: fields['status'] })
  }

  /** A change of the spec makes a new generation, as for a custom resource. */
  #store(plural: string, object: KubeObject): KubeObject {
    this.#version += 1
    const before = this.find(plural, object.metadata)
    if (before === undefined) this.#uids += 1
    const isNewSpec = JSON.stringify(before?.['spec']) !== JSON.stringify(object['spec'])
    // API servers know the age only in whole seconds.
    const seconds = Math.floor(this.#simulation.nowMs / 1000)
    const createdAt = new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString().replace('.000Z', 'Z')
    const metadata = {
      ...object.metadata,
      uid: before?.metadata.uid ?? `uid-${this.#uids}-${object.metadata.name}`,
      creationTimestamp: before?.metadata['creationTimestamp'] ?? createdAt,
      generation: (before?.metadata.generation ?? 0) + (isNewSpec ? 1 : 0),
      resourceVersion: `${this.#version}`,
    }
    const stored = { ...object, metadata }
    const objects = this.#objects.get(plural) ?? new Map<string, KubeObject>()
    this.#objects.set(plural, objects)
    objects.set(toKey(metadata), stored)
    this.#announce(plural, { type: before === undefined ? 'ADDED' : 'MODIFIED', object: stored })
    return stored
  }

  #announce(plural: string, event: WatchEvent): void {
    this.#changes.push({ plural, version: this.#version, event, atMs: this.#simulation.nowMs })
    for (const watcher of this.#watchers) {
      if (watcher.plural === plural && watcher.accepts(event.object)) this.#push(watcher, event)
    }
    this.onChange(plural, event.object)
  }
}

function toKey({ namespace = '', name }: ObjectKey): string {
  return `${namespace}/${name}`
}

/** Rejects a call that names another version of the object than the present one. */
function assertVersion(
  plural: string,
  { metadata }: KubeObject,
  { name, uid, resourceVersion }: Partial<ObjectVersion> & ObjectKey,
): void {
  const isSame = (uid ?? metadata.uid) === metadata.uid
  if (isSame && (resourceVersion ?? metadata.resourceVersion) === metadata.resourceVersion) return
  throw conflict(plural, name)
}

/** Returns whether a write changes nothing, which makes no new version. */
function isSameContent({ metadata: _, ...a }: KubeObject, { metadata: __, ...b }: KubeObject): boolean {
  return isDeepStrictEqual(a, b)
}

function notFound(plural: string, name: string): KubeApiError {
  return new KubeApiError(404, 'NotFound', `${plural} ${name}: 404 NotFound`)
}

function conflict(plural: string, name: string): KubeApiError {
  return new KubeApiError(409, 'Conflict', `${plural} ${name}: 409 Conflict: the object has been modified`)
}
