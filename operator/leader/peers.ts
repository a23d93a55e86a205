import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { AsyncQueue } from '@tollway/grpc/async-queue.ts'
import type { Call } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { ClientState, FeedClient, RemotePeers } from '../xds/client-state.ts'
import { defaultPeerTableLimits, PeerReportError, PeerTable, type PeerTableLimits } from './peer-table.ts'
import { type AgedReport, decodeEach, decodeReport, encodeReceipt } from './report-codec.ts'

interface PeersOptions {
  readonly ids: () => string
  readonly clock: Clock
  readonly log: Log
  readonly limits?: Partial<PeerTableLimits>
}

/**
 * The reports of other operators about their clients, for the feed of this operator
 * (`FeedOptions.remotePeers`). Every operator accepts reports, with or without the Lease.
 */
export class Peers implements RemotePeers {
  readonly #options: PeersOptions
  readonly #table: PeerTable
  readonly #listeners: (() => void)[] = []
  /** The functions that end the open streams. */
  readonly #open = new Set<(error: GrpcError) => void>()
  #expiry: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: PeersOptions) {
    this.#options = options
    this.#table = new PeerTable({ ...defaultPeerTableLimits, ...options.limits })
  }

  /** Receives the reports of another operator, and yields a receipt for each. */
  async *receive(
    reports: AsyncIterable<Uint8Array>,
    { signal }: Pick<Call, 'signal'>,
  ): AsyncGenerator<Uint8Array> {
    if (this.#isClosed) throw shuttingDown()
    const { ids, clock } = this.#options
    const stream = ids()
    const outbox = new AsyncQueue<Uint8Array>()
    const onAbort = () => outbox.end()
    this.#open.add(outbox.end)
    signal.addEventListener('abort', onAbort)
    void this.#readAll(stream, reports, outbox)
    try {
      yield* outbox.items
    } finally {
      signal.removeEventListener('abort', onAbort)
      this.#open.delete(outbox.end)
      this.#table.ended(stream, clock.monotonicMs())
      this.#scheduleExpiry()
      this.#notify()
    }
  }

  clientStates(typeUrl: string, clientId: string): readonly ClientState[] {
    return this.#table.clientStates(typeUrl, clientId)
  }

  clients(): readonly FeedClient[] {
    return this.#table.clients()
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener)
  }

  /** Ends every stream with UNAVAILABLE, and rejects new ones. */
  close(): void {
    this.#isClosed = true
    clearTimeout(this.#expiry)
    for (const end of [...this.#open]) end(shuttingDown())
  }

  async #readAll(
    stream: string,
    reports: AsyncIterable<Uint8Array>,
    outbox: AsyncQueue<Uint8Array>,
  ): Promise<void> {
    const { clock, log } = this.#options
    let received = 0
    try {
      for await (const report of decodeEach(reports, decodeReport)) {
        if (!this.#open.has(outbox.end)) return
        this.#table.receive(stream, withTimes(report, clock.monotonicMs()), clock.monotonicMs())
        received += 1
        outbox.put(encodeReceipt(received))
        this.#notify()
      }
      outbox.end()
    } catch (error) {
      const isWrong = error instanceof PeerReportError
      if (isWrong) log.warn('reject report of an operator', { reason: error.message })
      outbox.end(isWrong ? new GrpcError('FAILED_PRECONDITION', error.message) : (error as Error))
    }
  }

  /** Sets the timer that drops the tables of ended streams when their time is over. */
  #scheduleExpiry(): void {
    const { clock } = this.#options
    clearTimeout(this.#expiry)
    const dueMs = this.#table.expire(clock.monotonicMs())
    if (dueMs === Number.POSITIVE_INFINITY || this.#isClosed) return
    const onDue = () => {
      this.#scheduleExpiry()
      this.#notify()
    }
    this.#expiry = setTimeout(onDue, Math.max(1, dueMs - clock.monotonicMs())).unref()
  }

  #notify(): void {
    for (const listener of this.#listeners) listener()
  }
}

/**
 * Converts ages to times of the monotonic clock of this process. The delay of a report makes the streams in
 * it look younger than they are.
 */
function withTimes({ clientStates, ...report }: AgedReport, nowMs: number) {
  return {
    ...report,
    clientStates: clientStates.map(({ openedMsAgo, ...state }) => ({
      ...state,
      openedMs: nowMs - openedMsAgo,
    })),
  }
}

function shuttingDown(): GrpcError {
  return new GrpcError('UNAVAILABLE', 'the operator is shutting down')
}
