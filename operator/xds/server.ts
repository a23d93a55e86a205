import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { AnyMethod, Call } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { DiscoveryRequest } from '@tollway/proto/envoy/service/discovery/v3/discovery'
import {
  type AcknowledgementLimits,
  createAcknowledgements,
  defaultAcknowledgementLimits,
  type EnforcedResource,
  type Enforcement,
  type OwnStanding,
} from './acknowledgements.ts'
import { createDiscoveryCodec, discoveryPath } from './discovery.ts'
import { type FeedSession, openSession, type PublishedType } from './feed-session.ts'
import type { Snapshot } from './snapshot.ts'
import { clientId, type FeedClient, type RemotePeers } from './standing.ts'
import type { Response } from './stream.ts'
import { createTurns, type TurnLimits } from './turns.ts'

/**
 * The State of the World feed, aggregated: a stream may ask for several types. Each response carries every
 * resource of
 * its type; the names that a request asks for are not looked at, for a client ignores what it did not ask
 * for.
 */
export interface Feed {
  /** For `createGrpcServer`. */
  readonly methods: readonly AnyMethod[]
  /**
   * Puts the snapshot in force for its type, and sends it to every client that does not have it. Requests
   * for a type are not answered before its first snapshot. The same version again changes nothing. Throws,
   * and changes nothing, when the snapshot is larger than the limit.
   */
  publish(snapshot: Snapshot): void
  /** Returns the last published snapshot; undefined before the sources have synced. */
  published(typeUrl: string): Snapshot | undefined
  /** Says for any resource which of these clients enforce exactly that content now, and which refused it. */
  enforcement(typeUrl: string, uids: readonly string[]): (resource: EnforcedResource) => Enforcement
  /** Called after each change of `enforcement` or `clients`, without details. */
  onChange(listener: () => void): void
  /** One entry for each stream that has said who it is, here or at another operator. */
  clients(): readonly FeedClient[]
  /** The state of each client of each type by streams of this operator. */
  standings(): ReadonlyMap<string, readonly OwnStanding[]>
  /** Ends every stream with UNAVAILABLE, and refuses new ones: streams never end by themselves in a drain. */
  close(): void
}

export interface FeedOptions {
  /** The types that may be asked for. Requests for others are ignored and logged. */
  readonly typeUrls: readonly string[]
  /** A new unique id for each stream. */
  readonly ids: () => string
  readonly clock: Clock
  readonly log: Log
  /** Whether a client may have the feed; everybody when left out. Asked once a stream. */
  readonly admit?: (client: FeedClient) => boolean
  /** The state of clients of other operators. `enforcement` and `clients` include it. */
  readonly remotePeers?: RemotePeers
  readonly limits?: Partial<FeedLimits>
}

export interface FeedLimits extends AcknowledgementLimits {
  /** Of all clients. One more is answered by RESOURCE_EXHAUSTED. */
  readonly maxStreams: number
  /** The resources of one snapshot; our pods receive 64 MiB at most. */
  readonly maxSnapshotBytes: number
  /** How responses of a large snapshot take turns. */
  readonly turns: TurnLimits
}

export const defaultFeedLimits: FeedLimits = {
  ...defaultAcknowledgementLimits,
  maxStreams: 1000,
  maxSnapshotBytes: 60 * 1024 * 1024,
  turns: { maxBytes: 64 * 1024 * 1024, maxHoldMs: 1000 },
}

export function createFeed(options: FeedOptions): Feed {
  const limits = { ...defaultFeedLimits, ...options.limits }
  const { typeUrls, ids, clock, log, admit = () => true, remotePeers } = options
  const types: ReadonlyMap<string, PublishedType> = new Map(
    typeUrls.map(typeUrl => {
      const known = (id: string) => remotePeers?.standings(typeUrl, id) ?? []
      return [
        typeUrl,
        { snapshot: undefined, acknowledgements: createAcknowledgements(clock, limits, known) },
      ]
    }),
  )
  const turns = createTurns(limits.turns)
  const sessions = new Set<FeedSession>()
  const listeners: (() => void)[] = []
  let closed = false

  const onChange = () => {
    for (const listener of listeners) listener()
  }
  remotePeers?.onChange(onChange)

  function allClients(): readonly FeedClient[] {
    const own = [...sessions].flatMap(({ client }) => client ?? [])
    const ids = new Set(own.map(clientId))
    return [...own, ...(remotePeers?.clients() ?? []).filter(client => !ids.has(clientId(client)))]
  }

  async function* stream(requests: AsyncIterable<DiscoveryRequest>, call: Call): AsyncGenerator<Response> {
    if (closed) throw shuttingDown()
    if (sessions.size >= limits.maxStreams) {
      log.warn('reject a stream of the feed: too many', { maxStreams: limits.maxStreams })
      throw new GrpcError('RESOURCE_EXHAUSTED', `the feed has ${limits.maxStreams} streams already`)
    }
    const session = openSession(requests, call, { id: ids(), types, log, admit, onChange })
    const onAbort = () => session.end()
    sessions.add(session)
    call.signal.addEventListener('abort', onAbort)
    try {
      for await (const response of session.responses) yield* inTurn(response, call.signal)
    } finally {
      call.signal.removeEventListener('abort', onAbort)
      sessions.delete(session)
      session.close()
    }
  }

  /** The response is encoded when its turn has come, and counts until the connection has taken it. */
  async function* inTurn(response: Response, signal: AbortSignal): AsyncGenerator<Response> {
    const release = await turns.take(response.snapshot.bytes)
    try {
      if (!signal.aborted) yield response
    } finally {
      release()
    }
  }

  function typeOf(typeUrl: string): PublishedType {
    const type = types.get(typeUrl)
    if (type) return type
    throw new Error(`the feed has no type ${typeUrl}, only ${typeUrls.join(', ')}`)
  }

  return {
    methods: [{ kind: 'bidi', path: discoveryPath, ...createDiscoveryCodec(), handle: stream }],
    publish(snapshot) {
      const type = typeOf(snapshot.typeUrl)
      if (snapshot.bytes > limits.maxSnapshotBytes) {
        const size = `${snapshot.bytes} bytes in ${snapshot.resources.size} resources`
        throw new Error(`the snapshot has ${size}, at most ${limits.maxSnapshotBytes} bytes are allowed`)
      }
      if (snapshot.version === type.snapshot?.version) return
      type.snapshot = snapshot
      type.acknowledgements.retain(snapshot)
      log.info('published', { version: snapshot.version, resources: snapshot.resources.size })
      for (const session of sessions) session.publish(snapshot)
    },
    published: typeUrl => typeOf(typeUrl).snapshot,
    enforcement: (typeUrl, uids) => typeOf(typeUrl).acknowledgements.enforcement(uids),
    onChange: listener => void listeners.push(listener),
    clients: allClients,
    standings: () =>
      new Map([...types].map(([typeUrl, { acknowledgements }]) => [typeUrl, acknowledgements.standings()])),
    close() {
      closed = true
      for (const session of sessions) session.end(shuttingDown())
    },
  }
}

function shuttingDown(): GrpcError {
  return new GrpcError('UNAVAILABLE', 'the operator is shutting down')
}
