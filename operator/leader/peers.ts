import type { X509Certificate } from 'node:crypto'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { checkSubjectAltName } from '@tollway/chassis/net/tls.ts'
import { createOutbox } from '@tollway/grpc/outbox.ts'
import type { AnyMethod, Call } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { RemotePeers } from '../xds/client-state.ts'
import { defaultPeerTableLimits, PeerReportError, PeerTable, type PeerTableLimits } from './peer-table.ts'
import { type AgedReport, reportCodec, reportPath } from './report-codec.ts'

/**
 * The reports of other operators about their clients, for the feed of this one (`FeedOptions.remotePeers`).
 * Every operator accepts reports, with or without the Lease.
 */
export interface Peers extends RemotePeers {
  /** The methods for the server of the feed, which has to require client certificates. */
  readonly methods: readonly AnyMethod[]
  /** Ends every stream with UNAVAILABLE, and rejects new ones. */
  close(): void
}

export interface PeersOptions {
  /**
   * The DNS name that only operators have in their certificates: pods, which are of the same authority, lack
   * it.
   */
  readonly operatorName: string
  /** A new unique id for each stream. */
  readonly ids: () => string
  readonly clock: Clock
  readonly log: Log
  readonly limits?: Partial<PeerTableLimits>
}

interface Received {
  readonly received: number
}

export function createPeers(options: PeersOptions): Peers {
  const { operatorName, ids, clock, log } = options
  const table = new PeerTable({ ...defaultPeerTableLimits, ...options.limits })
  const listeners: (() => void)[] = []
  const open = new Set<(error: GrpcError) => void>()
  const expiry = createExpiryTimer(table, clock, notify)
  let closed = false

  function notify(): void {
    for (const listener of listeners) listener()
  }

  async function* report(requests: AsyncIterable<AgedReport>, call: Call): AsyncGenerator<Received> {
    if (closed) throw shuttingDown()
    const reason = reasonToReject(call.peerCertificate, operatorName)
    if (reason !== undefined) {
      log.warn('reject a report', { peer: call.peer, reason })
      throw new GrpcError('PERMISSION_DENIED', reason)
    }
    const stream = ids()
    const outbox = createOutbox<Received>()
    const onAbort = () => outbox.end()
    open.add(outbox.end)
    call.signal.addEventListener('abort', onAbort)
    read(stream, requests, outbox)
    try {
      yield* outbox.items
    } finally {
      call.signal.removeEventListener('abort', onAbort)
      open.delete(outbox.end)
      table.ended(stream, clock.monotonicMs())
      expiry.schedule()
      notify()
    }
  }

  async function read(
    stream: string,
    requests: AsyncIterable<AgedReport>,
    outbox: ReturnType<typeof createOutbox<Received>>,
  ): Promise<void> {
    let received = 0
    try {
      for await (const request of requests) {
        if (!open.has(outbox.end)) return
        table.receive(stream, toReport(request, clock.monotonicMs()), clock.monotonicMs())
        received += 1
        outbox.put({ received })
        notify()
      }
      outbox.end()
    } catch (error) {
      const isWrong = error instanceof PeerReportError
      if (isWrong) log.warn('reject a report', { reason: error.message })
      outbox.end(isWrong ? new GrpcError('FAILED_PRECONDITION', error.message) : (error as Error))
    }
  }

  return {
    methods: [{ kind: 'bidi', path: reportPath, ...reportCodec, handle: report }],
    clientStates: (typeUrl, clientId) => table.clientStates(typeUrl, clientId),
    clients: () => table.clients(),
    onChange: listener => void listeners.push(listener),
    close() {
      closed = true
      expiry.close()
      for (const end of [...open]) end(shuttingDown())
    },
  }
}

function reasonToReject(certificate: X509Certificate | undefined, operatorName: string): string | undefined {
  if (certificate === undefined) return 'only an operator reports, and the caller shows no certificate'
  return checkSubjectAltName(certificate, operatorName)?.message
}

/** Converts ages to times of the clock of this process. A late report makes its streams look younger. */
function toReport({ clientStates, ...report }: AgedReport, nowMs: number) {
  return {
    ...report,
    clientStates: clientStates.map(({ openedMsAgo, ...state }) => ({
      ...state,
      openedMs: nowMs - openedMsAgo,
    })),
  }
}

/** Drops the tables without a stream when their grace is over. */
function createExpiryTimer(table: Pick<PeerTable, 'expire'>, clock: Clock, onExpired: () => void) {
  let timer: NodeJS.Timeout | undefined
  function schedule(): void {
    clearTimeout(timer)
    const dueMs = table.expire(clock.monotonicMs())
    if (dueMs === Number.POSITIVE_INFINITY) return
    timer = setTimeout(
      () => {
        schedule()
        onExpired()
      },
      Math.max(1, dueMs - clock.monotonicMs()),
    ).unref()
  }
  return { schedule, close: () => clearTimeout(timer) }
}

function shuttingDown(): GrpcError {
  return new GrpcError('UNAVAILABLE', 'the operator is shutting down')
}
