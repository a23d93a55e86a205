import type { Log } from '@tollway/chassis/log/log.ts'
import { AsyncQueue } from '@tollway/grpc/async-queue.ts'
import type { Call } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { DiscoveryRequest } from '@tollway/proto/envoy/service/discovery/v3/discovery'
import type { Acknowledgements, StreamRecord } from './acknowledgements.ts'
import { type FeedClient, featuresField, maxFeatures, maxWorkers } from './client-state.ts'
import type { Snapshot } from './snapshot.ts'
import {
  createStreamState,
  offer,
  type RequestOutcome,
  type Response,
  receive,
  renew,
  type StreamState,
} from './stream.ts'

export interface PublishedType {
  /** Undefined until the sources have synced. */
  snapshot: Snapshot | undefined
  readonly acknowledgements: Acknowledgements
}

interface SessionOptions {
  /** The id of the stream, unique in this process. */
  readonly id: string
  readonly types: ReadonlyMap<string, PublishedType>
  readonly log: Log
  admit(client: FeedClient): boolean
  /** Called after a change of the state of this client. */
  onChange(): void
}

/** One stream: reads requests, and returns the responses to send. */
export interface FeedSession {
  /** Undefined before the first request. */
  readonly client: FeedClient | undefined
  readonly responses: AsyncIterable<Response>
  /** Sends a new snapshot when the protocol allows it: see `offer`. */
  publish(snapshot: Snapshot): void
  /** Ends `responses`, with the error if one is passed. */
  end(error?: GrpcError): void
  /** Records in the acknowledgements that the stream has ended. */
  close(): void
}

export function openSession(
  requests: AsyncIterable<DiscoveryRequest>,
  call: Pick<Call, 'peer'>,
  options: SessionOptions,
): FeedSession {
  const { id, types, log } = options
  const outbox = new AsyncQueue<Response>()
  const states = new Map<string, StreamState>()
  /** What the acknowledgements of each type know of this stream. */
  const records = new Map<string, StreamRecord>()
  let client: FeedClient | undefined
  let hasReportedUnknownType = false
  let closed = false

  function handle(request: DiscoveryRequest): void {
    if (closed) return
    client ??= identify(request)
    const { typeUrl, versionInfo, responseNonce, errorDetail } = request
    const type = types.get(typeUrl)
    if (type === undefined) {
      reportUnknownType(typeUrl)
      return
    }
    const before =
      states.get(typeUrl) ??
      createStreamState(`${id}-${states.size}`, type.snapshot, new Set(client.features))
    const { state, outcome } = receive(before, { versionInfo, responseNonce, error: errorDetail?.message })
    record(outcome, client, typeUrl, type.acknowledgements)
    if (outcome.kind === 'ignored') return
    send(typeUrl, type, state)
    options.onChange()
  }

  function identify(request: DiscoveryRequest): FeedClient {
    const identified = readClient(request, id, call.peer)
    if (!options.admit(identified)) {
      log.warn('reject feed client', { ...identified })
      throw new GrpcError(
        'PERMISSION_DENIED',
        `the feed has nothing for the node with the uid ${identified.uid}`,
      )
    }
    return identified
  }

  function reportUnknownType(typeUrl: string): void {
    if (hasReportedUnknownType) return
    hasReportedUnknownType = true
    log.warn('ignore request for an unknown type', { pod: client?.pod, typeUrl })
  }

  function send(typeUrl: string, type: PublishedType, from: StreamState): void {
    const known = records.get(typeUrl) ?? { lastGood: undefined }
    const { state, response } = offer(from, name => type.acknowledgements.lastGood(known, name))
    states.set(typeUrl, state)
    if (response) outbox.put(response)
  }

  function record(
    outcome: RequestOutcome,
    from: FeedClient,
    typeUrl: string,
    acknowledgements: Acknowledgements,
  ): void {
    const { pod } = from
    const known = records.get(typeUrl)
    switch (outcome.kind) {
      case 'opened':
        records.set(typeUrl, acknowledgements.opened(from, outcome.claimedVersion))
        log.debug('open feed stream', { pod, version: outcome.claimedVersion })
        break
      case 'acknowledged':
        if (known) acknowledgements.acknowledged(known, outcome.snapshot)
        log.debug('receive acknowledgement', { pod, version: outcome.snapshot.version })
        break
      case 'rejected': {
        const { snapshot, named, text } = outcome.rejection
        if (known) acknowledgements.rejected(known, outcome.rejection)
        const resources = named.map(({ resource }) => resource.name)
        log.warn('receive rejection', { pod, version: snapshot.version, resources, reason: text })
        break
      }
      case 'ignored':
        log.debug('ignore stale answer', { pod })
    }
  }

  async function read(): Promise<void> {
    try {
      for await (const request of requests) handle(request)
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
    publish(snapshot) {
      const type = types.get(snapshot.typeUrl)
      const state = states.get(snapshot.typeUrl)
      if (type && state && !closed) send(snapshot.typeUrl, type, renew(state, snapshot))
    },
    end: outbox.end,
    close() {
      if (closed) return
      closed = true
      if (client === undefined) return
      for (const [typeUrl, known] of records) types.get(typeUrl)?.acknowledgements.closed(known)
      options.onChange()
    },
  }
}

/** The maximum length of each text of a node: Kubernetes allows no longer names. */
const maxTextChars = 253

/** Reads the client from the node of a request. A client without a uid gets the id of its stream. */
function readClient({ node }: DiscoveryRequest, streamId: string, peer: string): FeedClient {
  const text = (name: string) => {
    const value = node?.metadata?.[name]
    return typeof value === 'string' ? value.slice(0, maxTextChars) : ''
  }
  const nodeId = (node?.id ?? '').slice(0, maxTextChars)
  const uid = text('uid') || `stream-${streamId}`
  const worker = readWorker(text('worker'), text('workers'))
  const features = text(featuresField)
    .split(',', maxFeatures)
    .filter(feature => feature !== '')
  const pod = text('pod') || nodeId || peer
  return { uid, pod, namespace: text('namespace'), features, nodeId, peer, worker }
}

/** Reads which worker of a process has the stream, and of how many. Invalid numbers are ignored. */
function readWorker(index: string, of: string): FeedClient['worker'] {
  const isPair = /^\d{1,2}$/.test(index) && /^\d{1,2}$/.test(of) && Number(index) < Number(of)
  return isPair && Number(of) <= maxWorkers ? { index: Number(index), of: Number(of) } : undefined
}
