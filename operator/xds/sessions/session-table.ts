import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { createOutbox } from '@tollway/grpc/outbox.ts'
import type { AnyMethod, Call } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import { isOperator } from './is-operator.ts'
import type { LeaderLink } from './leader-link.ts'
import { encodedCodec, passOn } from './pass-on.ts'
import { type LostSession, type OpenSession, SessionRegistry } from './session-registry.ts'

/** A session, for the owner of its stream. */
export interface ReceivingSession<Report> extends OpenSession {
  receive(report: Report): void
}

/** The sessions of one kind of process. */
export interface SessionKind<Report, Request, Session extends ReceivingSession<Report>> {
  /** The path of the gRPC method. */
  readonly path: string
  /** The kind for the log: `rate limit process`. */
  readonly name: string
  /** @throws GrpcError INVALID_ARGUMENT */
  decode(bytes: Uint8Array): Report
  encode(request: Request): Uint8Array
  /**
   * Opens the session of the process that sent this first report of its stream.
   *
   * @param send sends a request to the process
   * @throws GrpcError INVALID_ARGUMENT
   */
  open(first: Report, send: (request: Request) => void): Session
}

/** The sessions of the processes that are connected to this operator. */
export interface SessionTable<Session> {
  /** The methods that the server of the feed adds. */
  readonly methods: readonly AnyMethod[]
  sessions(): readonly Session[]
  /** The processes that were connected in the last 10 minutes, are not now, and are not gone. */
  lost(): readonly LostSession<Session>[]
  /** Adds a listener that is called with each new session. */
  onOpen(listener: (session: Session) => void): void
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

const maxNameChars = 253

/** @throws GrpcError INVALID_ARGUMENT for names of a wrong length */
export function checkNames(hello: {
  readonly uid: string
  readonly pod: string
  readonly namespace: string
}) {
  const names = [hello.uid, hello.pod, hello.namespace]
  if (hello.uid === '' || names.some(name => name.length > maxNameChars)) {
    throw new GrpcError('INVALID_ARGUMENT', `uid: must have 1 to ${maxNameChars} characters, as the names`)
  }
}

export function createSessionTable<Report, Request, Session extends ReceivingSession<Report>>(
  kind: SessionKind<Report, Request, Session>,
  options: SessionTableOptions,
): SessionTable<Session> {
  const { clock, leader, operatorName, isGone = () => false } = options
  const { path } = kind
  const limits = { ...defaultSessionLimits, ...options.limits }
  const registry = new SessionRegistry<Session>({ clock, isGone, keepLostMs: limits.keepLostMs })
  const serve = serveStreams(kind, registry, limits, options.log)
  let closed = false

  async function* handle(reports: AsyncIterable<Uint8Array>, call: Call): AsyncGenerator<Uint8Array> {
    if (closed) throw shuttingDown()
    const upstream = isOperator(call, operatorName) ? undefined : leader?.current()
    if (upstream !== undefined) yield* passOn({ ...upstream, path }, reports, call.signal)
    else yield* serve(reports, call)
  }

  // The processes connect again, and their sessions reach the new leader.
  leader?.onChange(() => registry.endAll(new GrpcError('UNAVAILABLE', 'another operator has the Lease')))

  return {
    methods: [{ kind: 'bidi', path, ...encodedCodec, handle }],
    sessions: () => registry.sessions(),
    lost: () => registry.lost(),
    onOpen: listener => registry.onOpen(listener),
    close() {
      closed = true
      registry.endAll(shuttingDown())
    },
  }
}

/** Returns a handler of the streams of processes. */
function serveStreams<Report, Request, Session extends ReceivingSession<Report>>(
  kind: SessionKind<Report, Request, Session>,
  registry: SessionRegistry<Session>,
  { maxSessions, maxWaiting }: SessionLimits,
  log: Log,
) {
  let streams = 0
  return async function* serve(reports: AsyncIterable<Uint8Array>, call: Call): AsyncGenerator<Uint8Array> {
    if (streams >= maxSessions) {
      log.warn(`reject a session of a ${kind.name}: too many`, { maxSessions })
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
    let session: Session | undefined
    receiveAll(reports, outbox.end, bytes => {
      const report = kind.decode(bytes)
      if (session !== undefined) return session.receive(report)
      session = kind.open(report, send)
      registry.open(session, outbox.end)
    })
    try {
      for await (const request of outbox.items) {
        waiting -= 1
        yield kind.encode(request)
      }
    } finally {
      streams -= 1
      call.signal.removeEventListener('abort', onAbort)
      if (session !== undefined) registry.close(session)
    }
  }
}

async function receiveAll(
  reports: AsyncIterable<Uint8Array>,
  end: (error?: Error) => void,
  receive: (bytes: Uint8Array) => void,
): Promise<void> {
  try {
    for await (const bytes of reports) receive(bytes)
    end()
  } catch (error) {
    end(error as Error)
  }
}

function shuttingDown(): GrpcError {
  return new GrpcError('UNAVAILABLE', 'the operator is shutting down')
}
