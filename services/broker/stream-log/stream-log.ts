import { ExpectedError } from '@tollway/chassis/expected-error.ts'
import type { AnimationIds } from '../wire/animation-ids.ts'
import type { Status } from '../wire/status.ts'
import type { ByteBudget } from './byte-budget.ts'

/**
 * Connects producers and consumers. A request is one push: an append-only list of entries in a ring, bounded
 * by bytes and time. Each consumer is a position in that ring, so the kept data does not grow with consumers.
 * In memory, the log belongs to one process. In Redis, brokers share it: a process has a ring, filled from
 * Redis, for each request that one of its consumers reads.
 *
 * `testing/stream-log.contract.ts` tests every implementation.
 */
export interface StreamLog {
  /**
   * Rejects with a `LogRejection`: `exists` while a request with the same three ids is running, `interrupted`
   * for `interruptedMs` after an interruption of these ids, `unavailable` if the log cannot be reached.
   */
  open(opening: Opening): Promise<LogWriter>
  /**
   * To be called when a lost producer begins its request again without a resume token. Ends the request with
   * these ids, unless its producer is connected or had another bearer token. Resolves with whether it has
   * ended a request; rejects with a `LogRejection` `unavailable`.
   */
  endLost(opening: Pick<Opening, 'ids' | 'bearerHash'>): Promise<boolean>
  /**
   * Continues a request at this process, wherever the producer was before. The previous writer ends with
   * `continued`. Rejects with a `LogRejection`: `spent` for a token of an earlier use, `forged` for any other
   * invalid one, `ended` and `expired` for a request that has ended or is not kept any more, `unavailable`.
   */
  resume(resumption: Resumption): Promise<ResumedRequest>
  /**
   * Reports matching requests once each until the returned function is called: the known ones, oldest first,
   * before this method returns, and then each new one.
   */
  watch(wanted: AnimationIds, onRequest: (request: LoggedRequest) => void): () => void
  /** Returns the running requests, and the ended ones that are still kept; oldest first. */
  list(): readonly LoggedRequest[]
  /**
   * Ends running requests with INFO "interrupted", wherever their producers are, and rejects pushes of these
   * ids for `interruptedMs`, even if no such request was running. An empty request id matches all running
   * requests of the stream; the next requests of the stream are accepted then, also ones without a request
   * id, since each of these is a different request. Returns the number of ended requests.
   */
  interrupt(streamId: string, requestId: string): Promise<number>
  readonly healthy: boolean
  /** Why the log is not healthy, for operators; empty if it is. */
  readonly problem: string
  onHealth(listener: (healthy: boolean) => void): () => void
  /**
   * Reports each end that this process has given to a request, once, until the returned function is called.
   * Of all processes that share the log, only the one whose end is effective reports it.
   */
  onEnd(listener: EndListener): () => void
  /** The budget, in which calls also count the bytes in their sinks here. */
  readonly budget: ByteBudget
  /** Ends the requests of producers of this process with ERROR "shutting down", and stops all reports. */
  close(): Promise<void>
}

export interface Opening {
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  /** The name of the route, for lists. */
  readonly route: string
  /**
   * The hash of the bearer token; empty if the route requires none. A push with the same hash may end the
   * request of a lost producer.
   */
  readonly bearerHash: string
  /** The header as received. It is entry 0, and never dropped. */
  readonly header: Uint8Array
  readonly limits: RingLimits
  /** The `traceparent` of the push, so that pulls belong to the same trace; empty without one. */
  readonly traceparent: string
  /** Undefined if the producer cannot continue the request. */
  readonly resume?: ResumeGrant
  /** The progress after the header. */
  readonly progress?: StoredProgress
}

/**
 * The right to continue a request. The owner of the log creates and checks tokens; the log stores only
 * hashes.
 */
interface ResumeGrant {
  /** The hash of the first resume token, in hexadecimal. */
  readonly tokenHash: string
  /** How long the request waits for its producer after `LogWriter.suspend`. */
  readonly graceMs: number
}

export interface Resumption {
  /** The run in the token: the key of the request. */
  readonly run: string
  /** The number of earlier continuations, according to the token. */
  readonly uses: number
  readonly tokenHash: string
  /** The hash of the next token. The used token stays valid until the first entry after this continuation. */
  readonly nextTokenHash: string
}

export interface ResumedRequest {
  readonly writer: LogWriter
  readonly header: Uint8Array
  /** The number of continuations, including this one. */
  readonly uses: number
  /** The progress after the last entry in the log. */
  readonly progress: StoredProgress
}

/**
 * Is told of an end. Must not throw.
 *
 * @param progress the progress after the last entry; undefined if the producer was not connected to this
 * process
 */
export type EndListener = (
  request: LoggedRequest,
  end: RequestEnd,
  progress: StoredProgress | undefined,
) => void

/** What the owner of the log needs after an entry to continue: JSON that the log stores but does not read. */
export type StoredProgress = object

export interface RingLimits {
  /**
   * The limit of bytes, without the header, but with `logEntryOverheadBytes` for each entry. There is always
   * room for one entry.
   */
  readonly bytes: number
  readonly ms: number
  /** How long an ended request is kept, for consumers that still read it or join late. */
  readonly keepMs: number
  /**
   * What happens when a ring is full: the oldest entries are dropped (`trim`), or the producer waits for the
   * slowest consumer (`wait`).
   */
  readonly whenFull: 'trim' | 'wait'
}

export interface LoggedRequest {
  /**
   * The key of the request, unique among all requests that ever ran: two pushes of the same ids are two
   * requests.
   */
  readonly key: string
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  readonly route: string
  readonly traceparent: string
  /** In milliseconds since the epoch. */
  readonly openedMs: number
  readonly ended: boolean
  /** Undefined while the request runs. */
  readonly end: RequestEnd | undefined
  /**
   * Adds a reader. Rejects with a `LogRejection`: `unavailable` if the log cannot be reached, `expired` if no
   * entry is kept any more.
   */
  read(reader: RingReader): Promise<RingCursor>
}

/** Reads a request. Callbacks run in the turn of the event and must not throw. */
export interface RingReader {
  /** Called after `next` has returned undefined, when there are more entries or the request has ended. */
  onReadable(): void
  /**
   * True for a reader that is queued: until `RingCursor.hold` the producer does not wait for it, and entries
   * that are dropped are a gap.
   */
  readonly waiting?: boolean
}

/** A position in a request. Positions count the messages of the request from 0, the header. */
export interface RingCursor {
  /** The position of the entry that `next` returns. */
  readonly position: number
  /** Keeps entries from this position on, within the limits of the ring. Only for `RingReader.waiting`. */
  hold(): void
  /** Returns how many entries were dropped before this cursor reached them, since the last call. */
  takeGap(): number
  /** Returns the next entry; undefined if there is none yet. */
  next(): LogEntry | undefined
  /**
   * Moves to a position or, without a gap, to the oldest kept entry. The cursor may wait for an entry to
   * come. `last` is the newest entry, `newest` the position after it, `lastMs` the oldest entry received in
   * that time. Position 0 is the header, which is always kept.
   */
  seek(to: number | 'oldest' | 'last' | 'newest' | { readonly lastMs: number }): void
  /** Set once the cursor has taken every entry. */
  readonly end: RequestEnd | undefined
  readonly behind: { readonly entries: number; readonly bytes: number }
  close(): void
}

export interface LogEntry {
  readonly position: number
  /** The bytes are in the memory of the ring, which may overwrite them when it gets its next entry. */
  readonly bytes: Uint8Array
  /** When the entry was received, in milliseconds since the epoch. */
  readonly receivedMs: number
}

export interface LogWriter {
  readonly request: LoggedRequest
  /**
   * Appends an entry in any case. Returns false if the caller should await `ready` before the next one. An
   * entry without progress and the next entry reach the log together or not at all.
   */
  append(bytes: Uint8Array, progress?: StoredProgress): boolean
  /** Resolves when there is room, or the writer has ended. */
  ready(): Promise<void>
  /**
   * Set when others have ended the writer: the request was interrupted or ended as lost, or another call
   * continues it. Later entries are ignored.
   */
  readonly endedBy: WriterEnd | undefined
  onEnded(listener: (end: WriterEnd) => void): void
  /**
   * To be called when the producer is disconnected: the request gets this end unless it is continued within
   * the grace period.
   */
  suspend(end: RequestEnd): void
  /**
   * Ends the request. Resolves when consumers can read every entry and the end; rejects with `unavailable`.
   */
  end(end: RequestEnd): Promise<void>
}

/**
 * How a request ended. `completed`: the last entry is the final status, which the producer has sent.
 * Otherwise, consumers get `status` after the last entry.
 */
export type RequestEnd =
  | { readonly how: 'completed' }
  | { readonly how: 'interrupted' | 'lost' | 'refused' | 'superseded'; readonly status: Status }

/** How a writer ended: by the end of the request, or `continued` if another writer continues it. */
export type WriterEnd = RequestEnd | { readonly how: 'continued' }

/** The last status for consumers, and the response to the producer. */
export const interruptedStatus: Status = { code: 'INFO', message: 'interrupted' }

/** The end when the broker of the producer shuts down. */
export const shutdownEnd: RequestEnd = { how: 'lost', status: { code: 'ERROR', message: 'shutting down' } }

/** The end when a lost producer pushes again without a resume token. */
export const restartedEnd = {
  how: 'lost',
  status: { code: 'ERROR', message: 'the producer is gone: it came back without a resume token' },
} as const satisfies RequestEnd

/**
 * Returns an end as JSON for programs. The end of a completed request has no status there: it is in the last
 * message, which the log does not read.
 */
export const toEndJson = (end: RequestEnd) =>
  end.how === 'completed' ? { how: end.how } : { how: end.how, ...end.status }

/** Returns an end as text for producers and logs. */
export const describeEnd = (end: RequestEnd): string =>
  end.how === 'completed' ? end.how : end.status.message

/** Pushes of interrupted ids are rejected for this time. */
export const interruptedMs = 60_000

/**
 * Each entry counts this many bytes in addition to its own, so that a flood of empty messages is bounded too.
 */
export const logEntryOverheadBytes = 256

export class LogRejection extends ExpectedError {
  readonly reason: 'exists' | 'interrupted' | 'unavailable' | 'expired' | 'ended' | 'forged' | 'spent'

  constructor(reason: LogRejection['reason'], message: string) {
    super(message)
    this.reason = reason
  }
}

/** All implementations share the texts of these rejections. */

export const shuttingDownRejection = () => new LogRejection('unavailable', 'the broker is shutting down')

export const duplicateIdsRejection = () => new LogRejection('exists', 'a push with the same ids is running')

export const interruptedRejection = () => new LogRejection('interrupted', 'the request was interrupted')

export const unreadableRejection = () => new LogRejection('unavailable', 'the log cannot be read')

export const messagesExpiredRejection = () =>
  new LogRejection('expired', 'no message of the request is kept any more')

export const runExpiredRejection = (run: string) =>
  new LogRejection('expired', `the run ${JSON.stringify(run)} is not kept any more`)

export const endedRejection = (how: string) => new LogRejection('ended', `the request has ended: ${how}`)
