import type { Clock } from '@tollway/chassis/clock.ts'
import { Semaphore } from '@tollway/chassis/limits/semaphore.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { AnyMethod, Call } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { DiscoveryRequest } from '@tollway/proto/envoy/service/discovery/v3/discovery'
import {
  type AcknowledgementLimits,
  Acknowledgements,
  defaultAcknowledgementLimits,
  type EnforcedResource,
  type Enforcement,
  type OwnClientState,
} from './acknowledgements.ts'
import { clientId, type FeedClient, type RemotePeers } from './client-state.ts'
import { createDiscoveryCodec, discoveryPath } from './discovery.ts'
import { type FeedSession, openSession, type PublishedType } from './feed-session.ts'
import type { Snapshot } from './snapshot.ts'
import type { Response } from './stream.ts'

interface FeedOptions {
  /** The types of the feed. Requests for others are ignored and logged. */
  readonly typeUrls: readonly string[]
  /** A new unique id for each stream. */
  readonly ids: () => string
  readonly clock: Clock
  readonly log: Log
  /** Whether a client may have the feed; every client may when left out. Called once for each stream. */
  readonly admit?: (client: FeedClient) => boolean
  /** The states of clients that have streams to other operators. `enforcement` and `clients` include them. */
  readonly remotePeers?: RemotePeers
  readonly limits?: Partial<FeedLimits>
}

interface FeedLimits extends AcknowledgementLimits {
  /** The maximum number of streams. One more is answered by RESOURCE_EXHAUSTED. */
  readonly maxStreams: number
  /** The maximum bytes of one snapshot. The pods of the services receive at most 64 MiB. */
  readonly maxSnapshotBytes: number
  /**
   * `maxBytes` limits the snapshots that are sent at the same time. A client that does not read keeps others
   * waiting for at most `maxHoldMs`.
   */
  readonly permits: { readonly maxBytes: number; readonly maxHoldMs: number }
}

const defaultFeedLimits: FeedLimits = {
  ...defaultAcknowledgementLimits,
  maxStreams: 1000,
  maxSnapshotBytes: 60 * 1024 * 1024,
  permits: { maxBytes: 64 * 1024 * 1024, maxHoldMs: 1000 },
}

/**
 * The State of the World feed, aggregated: a stream may ask for several types. Each response carries every
 * resource of its type and ignores the names in the request; a client drops resources that it does not need.
 */
export class Feed {
  readonly methods: readonly AnyMethod[]
  readonly #options: FeedOptions
  readonly #limits: FeedLimits
  readonly #types: ReadonlyMap<string, PublishedType>
  /** Limits concurrent sends: a snapshot for hundreds of clients must not be in memory hundreds of times. */
  readonly #sends: Semaphore
  readonly #sessions = new Set<FeedSession>()
  readonly #listeners: (() => void)[] = []
  #closed = false

  constructor(options: FeedOptions) {
    const { typeUrls, clock, remotePeers } = options
    this.#options = options
    this.#limits = { ...defaultFeedLimits, ...options.limits }
    this.#sends = new Semaphore(this.#limits.permits.maxBytes)
    this.#types = new Map(
      typeUrls.map(typeUrl => {
        const known = (id: string) => remotePeers?.clientStates(typeUrl, id) ?? []
        const acknowledgements = new Acknowledgements(clock, this.#limits, known)
        return [typeUrl, { snapshot: undefined, acknowledgements }]
      }),
    )
    remotePeers?.onChange(() => this.#notify())
    const handle = (requests: AsyncIterable<DiscoveryRequest>, call: Call) => this.#serve(requests, call)
    this.methods = [{ kind: 'bidi', path: discoveryPath, ...createDiscoveryCodec(), handle }]
  }

  /**
   * Replaces the snapshot of its type, and sends the new one to every client that does not have it. Requests
   * for a type are not answered before the first snapshot of the type. The same version again changes
   * nothing. Throws, and changes nothing, when the snapshot is larger than `maxSnapshotBytes`.
   */
  publish(snapshot: Snapshot): void {
    const { maxSnapshotBytes } = this.#limits
    const { typeUrl, version, bytes, resources } = snapshot
    const type = this.#requireType(typeUrl)
    if (bytes > maxSnapshotBytes) {
      const size = `${bytes} bytes in ${resources.size} resources`
      throw new Error(`the snapshot has ${size}, at most ${maxSnapshotBytes} bytes are allowed`)
    }
    if (version === type.snapshot?.version) return
    type.snapshot = snapshot
    type.acknowledgements.retain(snapshot)
    this.#options.log.info('publish snapshot', { version, resources: resources.size })
    for (const session of this.#sessions) session.publish(snapshot)
  }

  /** Returns the last published snapshot; undefined before the sources have synced. */
  published(typeUrl: string): Snapshot | undefined {
    return this.#requireType(typeUrl).snapshot
  }

  /**
   * Returns a function that tells for any resource which of these clients enforce exactly that content, and
   * which clients rejected it: also those beyond these, such as a process with other settings that the operator
   * does not run. Call it at once: see `Acknowledgements.enforcement`.
   */
  enforcement(typeUrl: string, uids: readonly string[]): (resource: EnforcedResource) => Enforcement {
    const { acknowledgements } = this.#requireType(typeUrl)
    const others = new Set(this.clients().map(({ uid }) => uid)).difference(new Set(uids))
    return acknowledgements.enforcement(uids, [...others])
  }

  /** Adds a listener that is called, without arguments, after each change of `enforcement` or `clients`. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener)
  }

  /** Returns the client of each stream whose first request has arrived, here or at another operator. */
  clients(): readonly FeedClient[] {
    const own = [...this.#sessions].flatMap(({ client }) => client ?? [])
    const ids = new Set(own.map(clientId))
    const remote = this.#options.remotePeers?.clients() ?? []
    return [...own, ...remote.filter(client => !ids.has(clientId(client)))]
  }

  /**
   * Returns for each version the pods that enforce it, at this and at other operators. Pods that enforce
   * nothing have the empty version. A pod whose workers enforce different versions is listed for each of
   * them.
   */
  podsByVersion(typeUrl: string): ReadonlyMap<string, ReadonlySet<string>> {
    const { acknowledgements } = this.#requireType(typeUrl)
    const pods = new Map<string, Set<string>>()
    for (const client of this.clients()) {
      const version = acknowledgements.findVersion(clientId(client))
      if (version === undefined) continue
      pods.set(version, (pods.get(version) ?? new Set()).add(client.uid))
    }
    return pods
  }

  clientStates(): ReadonlyMap<string, readonly OwnClientState[]> {
    return new Map(
      [...this.#types].map(([typeUrl, { acknowledgements }]) => [typeUrl, acknowledgements.clientStates()]),
    )
  }

  /**
   * Ends every stream with UNAVAILABLE, and rejects new ones. Clients keep streams open, so a drain would
   * wait for them forever.
   */
  close(): void {
    this.#closed = true
    for (const session of this.#sessions) session.end(shuttingDown())
  }

  async *#serve(requests: AsyncIterable<DiscoveryRequest>, call: Call): AsyncGenerator<Response> {
    this.#assertRoom()
    const session = this.#openSession(requests, call)
    const onAbort = () => session.end()
    this.#sessions.add(session)
    call.signal.addEventListener('abort', onAbort)
    try {
      for await (const response of session.responses) yield* this.#inTurn(response, call.signal)
    } finally {
      call.signal.removeEventListener('abort', onAbort)
      this.#sessions.delete(session)
      session.close()
    }
  }

  #assertRoom(): void {
    const { maxStreams } = this.#limits
    if (this.#closed) throw shuttingDown()
    if (this.#sessions.size < maxStreams) return
    this.#options.log.warn('reject feed stream', { reason: 'too many streams', maxStreams })
    throw new GrpcError('RESOURCE_EXHAUSTED', `the feed has ${maxStreams} streams already`)
  }

  #openSession(requests: AsyncIterable<DiscoveryRequest>, call: Call): FeedSession {
    const { ids, log, admit = () => true } = this.#options
    const onChange = () => this.#notify()
    return openSession(requests, call, { id: ids(), types: this.#types, log, admit, onChange })
  }

  /**
   * Yields the response when it is within the limit of `#sends`, where it counts until the connection has
   * accepted it.
   */
  async *#inTurn(response: Response, signal: AbortSignal): AsyncGenerator<Response> {
    const { bytes } = response.snapshot
    await this.#sends.acquire(bytes)
    let isHeld = true
    const release = () => {
      if (isHeld) this.#sends.release(bytes)
      isHeld = false
    }
    const timer = setTimeout(release, this.#limits.permits.maxHoldMs).unref()
    try {
      if (!signal.aborted) yield response
    } finally {
      clearTimeout(timer)
      release()
    }
  }

  #requireType(typeUrl: string): PublishedType {
    const type = this.#types.get(typeUrl)
    if (type) return type
    throw new Error(`the feed has no type ${typeUrl}, only ${this.#options.typeUrls.join(', ')}`)
  }

  #notify(): void {
    for (const listener of this.#listeners) listener()
  }
}

function shuttingDown(): GrpcError {
  return new GrpcError('UNAVAILABLE', 'the operator is shutting down')
}
