import type { X509Certificate } from 'node:crypto'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { checkSubjectAltName } from '@tollway/chassis/net/tls.ts'
import type { AnyMethod, Call } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import { createOutbox } from '../outbox.ts'
import type { RemotePeers } from '../standing.ts'
import {
  createPeerTable,
  defaultPeerTableLimits,
  type PeerTable,
  PeerTableError,
  type PeerTableLimits,
} from './peer-table.ts'
import { type AgedReport, reportCodec, reportPath } from './report-codec.ts'

/**
 * The reports of other operators about their clients, for the feed of this one (`FeedOptions.elsewhere`).
 * Every operator accepts reports, with or without the Lease.
 */
export interface Peers extends RemotePeers {
  /** For the server of the feed. It has to ask for client certificates. */
  readonly methods: readonly AnyMethod[]
  /** Ends every stream with UNAVAILABLE, and refuses new ones. */
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
  const table = createPeerTable({ ...defaultPeerTableLimits, ...options.limits })
  const listeners: (() => void)[] = []
  const open = new Set<(error: GrpcError) => void>()
  const graces = createGraceTimer(table, clock, tell)
  let closed = false

  function tell(): void {
    for (const listener of listeners) listener()
  }

  async function* report(requests: AsyncIterable<AgedReport>, call: Call): AsyncGenerator<Received> {
    if (closed) throw shuttingDown()
    const refusal = reasonToRefuse(call.peerCertificate, operatorName)
    if (refusal !== undefined) {
      log.warn('reject a report', { peer: call.peer, reason: refusal })
      throw new GrpcError('PERMISSION_DENIED', refusal)
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
      graces.look()
      tell()
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
        tell()
      }
      outbox.end()
    } catch (error) {
      const isWrong = error instanceof PeerTableError
      if (isWrong) log.warn('reject a report', { reason: error.message })
      outbox.end(isWrong ? new GrpcError('FAILED_PRECONDITION', error.message) : (error as Error))
    }
  }

  return {
    methods: [{ kind: 'bidi', path: reportPath, ...reportCodec, handle: report }],
    standings: table.standings,
    clients: table.clients,
    onChange: listener => void listeners.push(listener),
    close() {
      closed = true
      graces.close()
      for (const end of [...open]) end(shuttingDown())
    },
  }
}

function reasonToRefuse(certificate: X509Certificate | undefined, operatorName: string): string | undefined {
  if (certificate === undefined) return 'only an operator reports, and the caller shows no certificate'
  return checkSubjectAltName(certificate, operatorName)?.message
}

/** By our own clock: what came a little late counts as a little younger. */
function toReport({ standings, ...report }: AgedReport, nowMs: number) {
  return {
    ...report,
    standings: standings.map(({ openedMsAgo, ...standing }) => ({
      ...standing,
      openedMs: nowMs - openedMsAgo,
    })),
  }
}

/** Lets the table forget what is without a stream, when that is due. */
function createGraceTimer(table: Pick<PeerTable, 'forget'>, clock: Clock, onForgotten: () => void) {
  let timer: NodeJS.Timeout | undefined
  function look(): void {
    clearTimeout(timer)
    const dueMs = table.forget(clock.monotonicMs())
    if (dueMs === Number.POSITIVE_INFINITY) return
    timer = setTimeout(
      () => {
        look()
        onForgotten()
      },
      Math.max(1, dueMs - clock.monotonicMs()),
    ).unref()
  }
  return { look, close: () => clearTimeout(timer) }
}

function shuttingDown(): GrpcError {
  return new GrpcError('UNAVAILABLE', 'the operator is shutting down')
}
