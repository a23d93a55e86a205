import type { Clock } from '@tollway/chassis/clock.ts'
import { GrpcError } from '@tollway/grpc/status.ts'

/** One process, for as long as its stream is open. */
export interface OpenSession {
  /** Identifies the process: a pod has one for each worker. */
  readonly id: string
  /** The uid of the pod. */
  readonly uid: string
  /** The stream has ended. */
  close(): void
}

export interface LostSession<Session> {
  readonly session: Session
  /** When its stream ended, by the monotonic clock. */
  readonly endedMs: number
}

export interface SessionRegistryOptions {
  readonly clock: Clock
  readonly keepLostMs: number
  readonly maxLost: number
  readonly maxOfPod: number
  /** Returns whether the pod with this uid does not exist any more. */
  readonly isGone: (uid: string) => boolean
}

/** Ends a stream, with the error if there is one. */
type EndStream = (error?: GrpcError) => void

/** The open sessions by their processes, and the processes whose session has ended. */
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

  /** Returns the processes that were connected in the last `keepLostMs`, are not now, and are not gone. */
  lost(): readonly LostSession<Session>[] {
    const { clock, keepLostMs, isGone } = this.#options
    const sinceMs = clock.monotonicMs() - keepLostMs
    for (const [id, { session, endedMs }] of this.#lost) {
      if (endedMs < sinceMs || isGone(session.uid)) this.#lost.delete(id)
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

  /** Closes a session whose stream has ended. */
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
