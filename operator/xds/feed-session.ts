import type { Log } from '@tollway/chassis/log.ts'
import type { Call } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { DiscoveryRequest } from '@tollway/proto/envoy/service/discovery/v3/discovery'
import type { Acknowledgements, Client } from './acknowledgements.ts'
import { createOutbox } from './outbox.ts'
import type { Snapshot } from './snapshot.ts'
import {
  newStream,
  type Response,
  type StreamEffect,
  type StreamEvent,
  type StreamState,
  step,
} from './stream.ts'

/** What the feed has of one type. */
export interface PublishedType {
  /** undefined until the sources have synced. */
  snapshot: Snapshot | undefined
  readonly acknowledgements: Acknowledgements
}

/** Who is at the other end of a stream, as it says itself in its first request. */
export interface FeedClient extends Client {
  readonly nodeId: string
  readonly namespace: string
  /** The connection's address. */
  readonly peer: string
}

export interface SessionOptions {
  /** Unique to the stream. */
  readonly id: string
  readonly types: ReadonlyMap<string, PublishedType>
  readonly log: Log
  admit(client: FeedClient): boolean
  /** What is known of this client has changed. */
  onChange(): void
}

/** One stream: reads requests, and says what is to be sent. */
export interface FeedSession {
  /** undefined before the first request. */
  readonly client: FeedClient | undefined
  readonly responses: AsyncIterable<Response>
  /** The type has a new snapshot. */
  offer(snapshot: Snapshot): void
  /** Ends `responses`, with the error if there is one. */
  end(error?: GrpcError): void
  /** The stream is over: its client has one less. */
  close(): void
}

export function openSession(
  requests: AsyncIterable<DiscoveryRequest>,
  call: Pick<Call, 'peer'>,
  options: SessionOptions,
): FeedSession {
  const { id, types, log } = options
  const outbox = createOutbox<Response>()
  const states = new Map<string, StreamState>()
  let client: FeedClient | undefined
  let isTold = false
  let closed = false

  function receive(request: DiscoveryRequest): void {
    if (closed) return
    client ??= introduce(request)
    const { typeUrl, versionInfo, responseNonce, errorDetail } = request
    const type = types.get(typeUrl)
    if (type === undefined) {
      tellOfUnknownType(typeUrl)
      return
    }
    if (!states.has(typeUrl)) {
      states.set(typeUrl, newStream(`${id}-${states.size}`, type.snapshot))
      type.acknowledgements.opened(client, versionInfo)
      options.onChange()
    }
    advance(client, typeUrl, { kind: 'request', versionInfo, responseNonce, error: errorDetail?.message })
  }

  function introduce(request: DiscoveryRequest): FeedClient {
    const introduced = readClient(request, id, call.peer)
    if (!options.admit(introduced)) {
      log.warn('the feed refused a client', { ...introduced })
      throw new GrpcError(
        'PERMISSION_DENIED',
        `the feed has nothing for the node with the uid ${introduced.uid}`,
      )
    }
    return introduced
  }

  function tellOfUnknownType(typeUrl: string): void {
    if (isTold) return
    isTold = true
    log.warn('a client asked the feed for a type that it does not have', { pod: client?.pod, typeUrl })
  }

  function advance(to: FeedClient, typeUrl: string, event: StreamEvent): void {
    const state = states.get(typeUrl)
    const type = types.get(typeUrl)
    if (state === undefined || type === undefined) return
    const next = step(state, event, name => type.acknowledgements.lastGood(to.uid, name))
    states.set(typeUrl, next.state)
    for (const effect of next.effects) perform(effect, to, type.acknowledgements)
  }

  function perform(effect: StreamEffect, { uid, pod }: FeedClient, acknowledgements: Acknowledgements): void {
    if (effect.kind === 'send') {
      outbox.put(effect.response)
    } else if (effect.kind === 'ignored') {
      log.debug('a stale answer', { pod, nonce: effect.nonce })
    } else if (effect.kind === 'acknowledged') {
      acknowledgements.acknowledged(uid, effect.snapshot)
      log.debug('acknowledged', { pod, version: effect.snapshot.version })
      options.onChange()
    } else {
      const { snapshot, named, text } = effect.refusal
      acknowledgements.refused(uid, effect.refusal)
      const resources = named.map(({ resource }) => resource.name)
      log.warn('refused', { pod, version: snapshot.version, resources, reason: text })
      options.onChange()
    }
  }

  async function read(): Promise<void> {
    try {
      for await (const request of requests) receive(request)
      outbox.end()
    } catch (error) {
      outbox.end(error as Error)
    }
  }

  read()
  return {
    get client() {
      return client
    },
    responses: outbox.items,
    offer(snapshot) {
      if (client && !closed) advance(client, snapshot.typeUrl, { kind: 'snapshot', snapshot })
    },
    end: outbox.end,
    close() {
      if (closed) return
      closed = true
      if (client === undefined) return
      for (const typeUrl of states.keys()) types.get(typeUrl)?.acknowledgements.closed(client.uid)
      options.onChange()
    },
  }
}

/** What is read of each text that a node tells of itself: as much as Kubernetes allows a name to have. */
const maxTextChars = 253

/** A node that does not tell its uid is known as long as its stream lasts. */
function readClient({ node }: DiscoveryRequest, streamId: string, peer: string): FeedClient {
  const text = (name: string) => {
    const value = node?.metadata?.[name]
    return typeof value === 'string' ? value.slice(0, maxTextChars) : ''
  }
  const nodeId = (node?.id ?? '').slice(0, maxTextChars)
  const uid = text('uid') || `stream-${streamId}`
  return { uid, pod: text('pod') || nodeId || peer, namespace: text('namespace'), nodeId, peer }
}
