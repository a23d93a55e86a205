import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { createOutbox } from '@tollway/grpc/outbox.ts'
import type { AnyMethod, Call } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import { isOperator } from './leader/is-operator.ts'
import type { LeaderLink } from './leader/leader-link.ts'
import { passOn } from './leader/pass-on.ts'
import type { OpenProcessSession, ProcessSession } from './process-session.ts'
import {
  decodeReport,
  encodedCodec,
  encodeRequest,
  type Report,
  type Request,
  sessionPath,
} from './session-codec.ts'
import { type LostProcess, SessionRegistry } from './session-registry.ts'

/** The sessions of the processes that are connected to this operator. */
export interface SessionTable {
  /** The methods that the server of the feed adds. */
  readonly methods: readonly AnyMethod[]
  sessions(): readonly ProcessSession[]
  /** The processes that were connected in the last 10 minutes, are not now, and are not gone. */
  lost(): readonly LostProcess[]
  /** Adds a listener that is called with each new session. */
  onOpen(listener: (session: ProcessSession) => void): void
  /** Ends every stream with UNAVAILABLE, and refuses new ones. */
  close(): void
}

export interface SessionTableOptions {
  /**
   * The operator with the Lease, to which sessions are passed on; undefined if there is one operator. Its own
   * sessions are not passed on again.
   */
  readonly leader?: LeaderLink | undefined
  /** The DNS name that only operators have in their certificates. */
  readonly operatorName?: string | undefined
  /** Whether the pod with this uid does not exist any more; never if left out. */
  readonly isGone?: ((uid: string) => boolean) | undefined
  readonly clock: Clock
  readonly log: Log
  readonly limits?: Partial<SessionLimits>
}

export interface SessionLimits {
  /** One more is answered by RESOURCE_EXHAUSTED. */
  readonly maxSessions: number
  /** The most requests that wait for a process that does not read; beyond it the session ends. */
  readonly maxWaiting: number
  readonly keepLostMs: number
}

export const defaultSessionLimits: SessionLimits = {
  maxSessions: 1_000,
  maxWaiting: 1_000,
  keepLostMs: 600_000,
}

export function createSessionTable(options: SessionTableOptions): SessionTable {
  const { clock, leader, operatorName, isGone = () => false } = options
  const limits = { ...defaultSessionLimits, ...options.limits }
  const registry = new SessionRegistry({ clock, isGone, keepLostMs: limits.keepLostMs })
  const serve = createSessionStreams(registry, limits, options.log)
  let closed = false

  async function* handle(reports: AsyncIterable<Uint8Array>, call: Call): AsyncGenerator<Uint8Array> {
    if (closed) throw shuttingDown()
    const upstream = isOperator(call, operatorName) ? undefined : leader?.current()
    if (upstream !== undefined) yield* passOn(upstream, reports, call.signal)
    else yield* serve(reports, call)
  }

  // The processes connect again, and their sessions reach the new leader.
  leader?.onChange(() => registry.endAll(new GrpcError('UNAVAILABLE', 'another operator has the Lease')))

  return {
    methods: [{ kind: 'bidi', path: sessionPath, ...encodedCodec, handle }],
    sessions: () => registry.sessions(),
    lost: () => registry.lost(),
    onOpen: listener => registry.onOpen(listener),
    close() {
      closed = true
      registry.endAll(shuttingDown())
    },
  }
}

/** Returns a handler of the streams of processes, each of which begins with a Hello. */
function createSessionStreams(
  registry: SessionRegistry,
  { maxSessions, maxWaiting }: SessionLimits,
  log: Log,
) {
  let streams = 0
  return async function* serve(reports: AsyncIterable<Uint8Array>, call: Call): AsyncGenerator<Uint8Array> {
    if (streams >= maxSessions) {
      log.warn('reject a session of a rate limit process: too many', { maxSessions })
      throw new GrpcError('RESOURCE_EXHAUSTED', `there are ${maxSessions} sessions already`)
    }
    const outbox = createOutbox<Request>()
    let waiting = 0
    const send = (request: Request) => {
      waiting += 1
      if (waiting > maxWaiting) outbox.end(new GrpcError('RESOURCE_EXHAUSTED', 'the process does not read'))
      else outbox.put(request)
    }
    const onAbort = () => outbox.end()
    call.signal.addEventListener('abort', onAbort)
    streams += 1
    let session: OpenProcessSession | undefined
    readAll(reports, outbox.end, report => {
      if (session === undefined) session = registry.open(helloOf(report), { send, end: outbox.end })
      else session.receive(report)
    })
    try {
      for await (const request of outbox.items) {
        waiting -= 1
        yield encodeRequest(request)
      }
    } finally {
      streams -= 1
      call.signal.removeEventListener('abort', onAbort)
      if (session !== undefined) registry.close(session)
    }
  }
}

/** @throws GrpcError INVALID_ARGUMENT */
function helloOf(report: Report) {
  if (report.case !== 'hello') throw new GrpcError('INVALID_ARGUMENT', 'the first message must be a Hello')
  return report.value
}

async function readAll(
  reports: AsyncIterable<Uint8Array>,
  end: (error?: Error) => void,
  receive: (report: Report) => void,
): Promise<void> {
  try {
    for await (const report of reports) receive(decodeReport(report))
    end()
  } catch (error) {
    end(error as Error)
  }
}

function shuttingDown(): GrpcError {
  return new GrpcError('UNAVAILABLE', 'the operator is shutting down')
}
