import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { AnyMethod, Call, Codec } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import { type Admit, SessionStreams } from './session-streams.ts'

/** Leaves messages encoded, because an operator without the Lease passes them on unread. */
export const encodedCodec: Codec<Uint8Array, Uint8Array> = {
  decode: bytes => bytes.slice(),
  encode: bytes => bytes,
}

export type Reports = AsyncIterable<Uint8Array>

/** The first report of a stream: the identity of the process. */
export interface Hello {
  readonly uid: string
  readonly pod: string
  readonly namespace: string
}

/** A session with the function for the owner of the stream, which passes reports to the session. */
export interface ReceivingSession<Report> extends OpenSession {
  /** @throws GrpcError INVALID_ARGUMENT for a report that the process may not send, which ends the session */
  receive(report: Report): void
}

/** How the sessions of one kind of process are opened, and how their messages are encoded. */
export interface SessionKind<
  Greeting extends Hello,
  Report,
  Request,
  Session extends ReceivingSession<Report>,
> {
  readonly path: string
  /** The name of the kind in logs, such as `rate limit process`. */
  readonly name: string
  /** @throws GrpcError INVALID_ARGUMENT */
  decode(bytes: Uint8Array): Report
  encode(request: Request): Uint8Array
  /** @throws GrpcError INVALID_ARGUMENT for another report */
  readHello(first: Report): Greeting
  /** @param send sends a request to the process */
  open(hello: Greeting, send: (request: Request) => void): Session
}

/** The sessions of the processes that are connected to this operator. */
export interface SessionTable<Session> {
  readonly methods: readonly AnyMethod[]
  /** Serves a session here, whichever operator has the Lease. */
  serve(reports: Reports, call: Call): AsyncIterable<Uint8Array>
  sessions(): readonly Session[]
  /** The processes that were connected in the last 10 minutes, are not now, and still exist. */
  lost(): readonly LostSession<Session>[]
  onOpen(listener: (session: Session) => void): void
  /** Ends every stream with UNAVAILABLE, and rejects new ones. */
  close(): void
}

/** Passes sessions on to the operator with the Lease, which has the sessions of all processes. */
export interface SessionRelay {
  /** Returns the function that passes a session on; undefined while this operator has the sessions itself. */
  current(): ((reports: Reports, signal: AbortSignal) => AsyncIterable<Uint8Array>) | undefined
  /** Adds a listener that is called when another operator gets the Lease. */
  onChange(listener: () => void): void
}

interface SessionTableOptions {
  /** Passes sessions on to the operator with the Lease. Undefined if there is only one operator. */
  readonly relay?: SessionRelay | undefined
  /** Admits processes. If left out, each is admitted under the name in its Hello. */
  readonly admit?: Admit | undefined
  /** Returns whether the pod with this uid does not exist any more. If left out, no pod counts as removed. */
  readonly isRemoved?: ((uid: string) => boolean) | undefined
  readonly clock: Clock
  readonly log: Log
  readonly limits?: Partial<SessionLimits>
}

export interface SessionLimits {
  /**
   * The maximum number of sessions, and of streams that are passed on. One more ends with RESOURCE_EXHAUSTED.
   */
  readonly maxSessions: number
  /** The maximum number of sessions of one pod: a pod has at most 64 workers. */
  readonly maxOfPod: number
  /** The maximum number of streams that have not sent a Hello, and the time limit of the Hello. */
  readonly maxUnnamed: number
  readonly helloMs: number
  /** The maximum number of requests that wait for a process that does not read. One more ends the session. */
  readonly maxWaiting: number
  /**
   * The pace at which the reports of one stream are read. After a pause of the sender, `burstSeconds` of
   * reports at this pace are read at once.
   */
  readonly pace: {
    readonly reportsPerSecond: number
    readonly bytesPerSecond: number
    readonly burstSeconds: number
  }
  /** How long an ended session is listed as lost, and the maximum number of lost sessions. */
  readonly keepLostMs: number
  readonly maxLost: number
}

export const defaultSessionLimits: SessionLimits = {
  maxSessions: 1_000,
  maxOfPod: 64,
  maxUnnamed: 100,
  helloMs: 10_000,
  maxWaiting: 1_000,
  // A process sends up to 200 reports of subscriptions per second, and the totals of 100,000 rules have about
  // 6 MB.
  pace: { reportsPerSecond: 500, bytesPerSecond: 8 * 1024 * 1024, burstSeconds: 4 },
  keepLostMs: 600_000,
  maxLost: 1_000,
}

export function createSessionTable<
  Greeting extends Hello,
  Report,
  Request,
  Session extends ReceivingSession<Report>,
>(
  kind: SessionKind<Greeting, Report, Request, Session>,
  options: SessionTableOptions,
): SessionTable<Session> {
  const { clock, log, relay, isRemoved = () => false, admit = ownName } = options
  const limits = { ...defaultSessionLimits, ...options.limits }
  const registry = new SessionRegistry<Session>({ clock, isRemoved, ...limits })
  const streams = new SessionStreams({ kind, registry, admit, limits, clock, log })
  let passed = 0
  let closed = false

  async function* passOn(
    passOnce: NonNullable<ReturnType<SessionRelay['current']>>,
    reports: Reports,
    { signal }: Call,
  ): AsyncGenerator<Uint8Array> {
    if (passed >= limits.maxSessions)
      throw new GrpcError('RESOURCE_EXHAUSTED', `${passed} sessions are passed on already`)
    passed += 1
    try {
      yield* passOnce(reports, signal)
    } finally {
      passed -= 1
    }
  }

  async function* serve(reports: Reports, call: Call): AsyncGenerator<Uint8Array> {
    if (closed) throw shuttingDown()
    yield* streams.serve(reports, call)
  }

  function handle(reports: Reports, call: Call): AsyncIterable<Uint8Array> {
    const passOnce = closed ? undefined : relay?.current()
    return passOnce === undefined ? serve(reports, call) : passOn(passOnce, reports, call)
  }

  // Ended sessions are opened again by their processes, and then passed on to the new leader.
  relay?.onChange(() => registry.endAll(new GrpcError('UNAVAILABLE', 'another operator has the Lease')))

  return {
    methods: [{ kind: 'bidi', path: kind.path, ...encodedCodec, handle }],
    serve,
    sessions: () => registry.sessions(),
    lost: () => registry.lost(),
    onOpen: listener => registry.onOpen(listener),
    close() {
      closed = true
      registry.endAll(shuttingDown())
    },
  }
}

const ownName: Admit = ({ uid, pod }) => pod || uid

function shuttingDown(): GrpcError {
  return new GrpcError('UNAVAILABLE', 'the operator is shutting down')
}

/** One process, for as long as its stream is open. */
export interface OpenSession {
  /** Identifies the process. Each worker of a pod is a process of its own. */
  readonly id: string
  readonly uid: string
  close(): void
}

export interface LostSession<Session> {
  readonly session: Session
  /** When the stream of the session ended, by the monotonic clock, in milliseconds. */
  readonly endedMs: number
}

interface SessionRegistryOptions {
  readonly clock: Clock
  readonly keepLostMs: number
  readonly maxLost: number
  readonly maxOfPod: number
  readonly isRemoved: (uid: string) => boolean
}

type EndStream = (error?: GrpcError) => void

/** The open sessions, at most one for each process, and the last sessions of the processes that have none. */
export class SessionRegistry<Session extends OpenSession> {
  readonly #options: SessionRegistryOptions
  readonly #open = new Map<string, Session>()
  readonly #streams = new Map<Session, EndStream>()
  readonly #lost = new Map<string, LostSession<Session>>()
  readonly #listeners: ((session: Session) => void)[] = []

  constructor(options: SessionRegistryOptions) {
    this.#options = options
  }

  sessions(): readonly Session[] {
    return [...this.#open.values()]
  }

  /** Returns the processes that were connected in the last `keepLostMs`, are not now, and still exist. */
  lost(): readonly LostSession<Session>[] {
    const { clock, keepLostMs, isRemoved } = this.#options
    const sinceMs = clock.monotonicMs() - keepLostMs
    for (const [id, { session, endedMs }] of this.#lost) {
      if (endedMs < sinceMs || isRemoved(session.uid)) this.#lost.delete(id)
    }
    return [...this.#lost.values()]
  }

  onOpen(listener: (session: Session) => void): void {
    this.#listeners.push(listener)
  }

  /**
   * Adds a session. An older stream of the same process is ended.
   *
   * @throws GrpcError RESOURCE_EXHAUSTED
   */
  open(session: Session, end: EndStream): void {
    const { id, uid } = session
    const before = this.#open.get(id)
    const { maxOfPod } = this.#options
    if (before === undefined && this.sessions().filter(other => other.uid === uid).length >= maxOfPod)
      throw new GrpcError('RESOURCE_EXHAUSTED', `the pod has ${maxOfPod} sessions already`)
    const endOlder = before && this.#streams.get(before)
    endOlder?.(new GrpcError('ABORTED', 'the process has a newer session'))
    this.#open.set(id, session)
    this.#streams.set(session, end)
    this.#lost.delete(id)
    for (const listener of this.#listeners) listener(session)
  }

  close(session: Session): void {
    const { id } = session
    this.#streams.delete(session)
    session.close()
    if (this.#open.get(id) !== session) return
    this.#open.delete(id)
    this.#lost.delete(id)
    this.#lost.set(id, { session, endedMs: this.#options.clock.monotonicMs() })
    const [oldest] = this.#lost.keys()
    if (this.#lost.size > this.#options.maxLost && oldest !== undefined) this.#lost.delete(oldest)
  }

  endAll(error: GrpcError): void {
    for (const end of [...this.#streams.values()]) end(error)
  }
}
