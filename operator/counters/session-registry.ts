import type { Clock } from '@tollway/chassis/clock.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { Hello } from '@tollway/proto/tollway/operator/v1/counters'
import { type OpenProcessSession, openProcessSession, type ProcessSession } from './process-session.ts'
import type { Request } from './session-codec.ts'

export interface LostProcess {
  readonly session: ProcessSession
  /** When its stream ended, by the monotonic clock. */
  readonly endedMs: number
}

/** The operator's side of the stream of a process. */
export interface SessionStream {
  send(request: Request): void
  /** Ends the stream, with the error if there is one. */
  end(error?: GrpcError): void
}

export interface SessionRegistryOptions {
  readonly clock: Clock
  readonly keepLostMs: number
  /** Returns whether the pod with this uid does not exist any more. */
  readonly isGone: (uid: string) => boolean
}

const maxNameChars = 253

/** The open sessions by their processes, and the processes whose session has ended. */
export class SessionRegistry {
  readonly #options: SessionRegistryOptions
  readonly #open = new Map<string, OpenProcessSession>()
  readonly #streams = new Map<OpenProcessSession, SessionStream>()
  readonly #lost = new Map<string, LostProcess>()
  readonly #listeners: ((session: ProcessSession) => void)[] = []

  constructor(options: SessionRegistryOptions) {
    this.#options = options
  }

  sessions(): readonly ProcessSession[] {
    return [...this.#open.values()]
  }

  /** Returns the processes that were connected in the last `keepLostMs`, are not now, and are not gone. */
  lost(): readonly LostProcess[] {
    const { clock, keepLostMs, isGone } = this.#options
    const sinceMs = clock.monotonicMs() - keepLostMs
    for (const [id, { session, endedMs }] of this.#lost) {
      if (endedMs < sinceMs || isGone(session.identity.uid)) this.#lost.delete(id)
    }
    return [...this.#lost.values()]
  }

  onOpen(listener: (session: ProcessSession) => void): void {
    this.#listeners.push(listener)
  }

  /**
   * Opens the session of a process. An older stream of the same process is ended.
   *
   * @throws GrpcError INVALID_ARGUMENT for names of a wrong length
   */
  open(hello: Hello, stream: SessionStream): OpenProcessSession {
    const names = [hello.uid, hello.pod, hello.namespace]
    if (hello.uid === '' || names.some(name => name.length > maxNameChars)) {
      throw new GrpcError('INVALID_ARGUMENT', `uid: must have 1 to ${maxNameChars} characters, as the names`)
    }
    const session = openProcessSession(hello, stream.send, this.#options.clock)
    const id = sessionId(session)
    const before = this.#open.get(id)
    const older = before && this.#streams.get(before)
    older?.end(new GrpcError('ABORTED', 'the process has a newer session'))
    this.#open.set(id, session)
    this.#streams.set(session, stream)
    this.#lost.delete(id)
    for (const listener of this.#listeners) listener(session)
    return session
  }

  /** Closes a session whose stream has ended. */
  close(session: OpenProcessSession): void {
    const id = sessionId(session)
    this.#streams.delete(session)
    session.close()
    if (this.#open.get(id) !== session) return
    this.#open.delete(id)
    this.#lost.set(id, { session, endedMs: this.#options.clock.monotonicMs() })
  }

  endAll(error: GrpcError): void {
    for (const stream of [...this.#streams.values()]) stream.end(error)
  }
}

/** Identifies the process: a pod has one for each worker. */
function sessionId({ identity: { uid, worker } }: ProcessSession): string {
  return `${uid} ${worker}`
}
