import { ExpectedError } from '@tollway/chassis/expected-error.ts'
import type { AnimationIds } from '../wire/animation-ids.ts'
import type { Status } from '../wire/status.ts'
import type { ByteBudget } from './byte-budget.ts'

/**
 * Connects producers and consumers. A request is one push: an append-only list of entries, kept in a ring
 * that is bounded by bytes and time. Each consumer is a position in that ring, so the kept data does not grow
 * with the number of consumers. In memory the log belongs to one process; in Redis several brokers share it,
 * and a process then has a ring, filled from Redis, for each request that one of its consumers reads.
 *
 * `testing/stream-log.contract.ts` tests every implementation against this interface.
 */
export interface StreamLog {
  /**
   * Begins a request. Rejects with a `LogRejection`: `exists` while a producer with the same three ids is
   * connected, `interrupted` shortly after an interruption of the request, `unavailable` if the log is not
   * reachable.
   */
  open(opening: Opening): Promise<LogWriter>
  /**
   * Ends the request with the same ids whose producer is lost, because the producer begins it again without a
   * resume token. Resolves with whether it has ended one: not while the producer is connected, and not for
   * another bearer token. Rejects with a `LogRejection` `unavailable` if the log is not reachable.
   */
  endLost(opening: Pick<Opening, 'ids' | 'bearerHash'>): Promise<boolean>
  /**
   * Continues a request at this process with a resume token, wherever the producer was connected before. The
   * previous writer ends with `continued`: it accepts no more entries. Rejects with a `LogRejection`: `forged`
   * and `spent` for a token that is not the current one, `ended` for a request that has ended, `expired` for one
   * that is not kept, `unavailable` if the log is not reachable.
   */
  resume(resumption: Resumption): Promise<ResumedRequest>
  /**
   * Reports the existing requests, oldest first, before it returns or as soon as they are known, then each
   * new one, until the returned function is called. Each request is reported once.
   */
  watch(wanted: AnimationIds, onRequest: (request: LoggedRequest) => void): () => void
  /** The known requests, oldest first: running, or ended and still kept. */
  list(): readonly LoggedRequest[]
  /**
   * Ends requests with INFO "interrupted", wherever their producers are, and rejects further pushes of these
   * ids for `interruptedMs`, even if none of them has begun yet. An empty request id matches all running
   * requests of the stream: the stream's next requests are accepted, including the next one without a request
   * id, which is a different request each time. Returns the number of running requests that were ended.
   */
  interrupt(streamId: string, requestId: string): Promise<number>
  readonly healthy: boolean
  /** Why it is unhealthy, as text for operators; empty if healthy. */
  readonly problem: string
  onHealth(listener: (healthy: boolean) => void): () => void
  /**
   * Reports each end that this process has given to a request, once, until the returned function is called.
   * Of all processes that share the log, the one whose end is effective reports it, wherever the producer was
   * connected.
   */
  onEnd(listener: EndListener): () => void
  /** The memory limit of this process; calls count the bytes of their sinks in it. */
  readonly budget: ByteBudget
  /** Ends the requests of this process's producers with ERROR "shutting down", and stops all reports. */
  close(): Promise<void>
}

export interface Opening {
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  /** The name of the route, for lists. */
  readonly route: string
  /**
   * The hash of the producer's bearer token; empty if its route asks for none. When the producer is lost, a
   * push with the same hash may end the request.
   */
  readonly bearerHash: string
  /** The bytes of the header message, as received: entry 0, which is never trimmed. */
  readonly header: Uint8Array
  readonly limits: RingLimits
  /** The `traceparent` of the push, so that pulls belong to the same trace; empty if there is none. */
  readonly traceparent: string
  /** The grant for the producer to continue the request; undefined if it cannot. */
  readonly resume?: ResumeGrant
  /** The progress after the header. */
  readonly progress?: StoredProgress
}

/**
 * Allows a producer to continue its request. The owner of the log handles the tokens; the log stores hashes.
 */
interface ResumeGrant {
  /** Hexadecimal. */
  readonly tokenHash: string
  /** The time that the request waits for its producer after `LogWriter.suspend`. */
  readonly graceMs: number
}

export interface Resumption {
  /** The key of the request. */
  readonly run: string
  /** The number of earlier continuations, according to the token. */
  readonly uses: number
  readonly tokenHash: string
  /** The hash of the token that replaces it; the old one is valid until the first entry after this. */
  readonly nextTokenHash: string
}

export interface ResumedRequest {
  readonly writer: LogWriter
  readonly header: Uint8Array
  /** The number of continuations, including this one. */
  readonly uses: number
  /** The progress of the last entry in the log. */
  readonly progress: StoredProgress
}

/**
 * `progress` is that of the last entry; undefined if the producer was not connected to this process. Must not
 * throw.
 */
export type EndListener = (
  request: LoggedRequest,
  end: RequestEnd,
  progress: StoredProgress | undefined,
) => void

/** The state of the producer's owner after an entry; JSON that the log does not read. */
export type StoredProgress = object

export interface RingLimits {
  /**
   * The total of the entries without the header, with `logEntryOverheadBytes` for each. There is always room for
   * one.
   */
  readonly bytes: number
  readonly ms: number
  /** The time that an ended request is kept, for consumers that still read it or join late. */
  readonly keepMs: number
  /** Whether the oldest entries are dropped, or the producer waits for the slowest consumer. */
  readonly whenFull: 'trim' | 'wait'
}

export interface LoggedRequest {
  /** Globally unique: two pushes of the same ids are two requests. */
  readonly key: string
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  readonly route: string
  readonly traceparent: string
  /** Milliseconds since the epoch. */
  readonly openedMs: number
  readonly ended: boolean
  /** Undefined while it is running. */
  readonly end: RequestEnd | undefined
  /**
   * Starts to read. The ring is filled while it has readers. Rejects with a `LogRejection` `unavailable`, or
   * `expired` if no entry is kept any more.
   */
  read(reader: RingReader): Promise<RingCursor>
}

/** The owner of a cursor. Callbacks run in the turn of the event and must not throw. */
export interface RingReader {
  /** The cursor has more entries, or the request has ended. */
  onReadable(): void
  /**
   * True for a reader that is queued. Its cursor holds no entries until `RingCursor.hold`: the producer does
   * not wait for it, and entries that are trimmed in the meantime are a gap.
   */
  readonly waiting?: boolean
}

/** A position in a ring. Positions count the request's messages from 0, the header. */
export interface RingCursor {
  /** The position of the entry that `next` returns. */
  readonly position: number
  /** Holds the entries from its position on, within the limits of the ring. Needed only after `waiting`. */
  hold(): void
  /** The number of entries that were trimmed before this cursor reached them, since the last call. */
  takeGap(): number
  /** The next entry, or undefined if there is none yet. */
  next(): LogEntry | undefined
  /**
   * Moves to a position, or to the oldest kept entry if the position is older, which does not count as a gap.
   * The position may be after the newest entry: the cursor then waits for the entry with this position.
   * `last` is the newest entry, `newest` the position after it. With position 0 the header is read in any
   * case.
   */
  seek(to: number | 'oldest' | 'last' | 'newest' | { readonly lastMs: number }): void
  /** The end of the request, after every entry was taken; undefined before. */
  readonly end: RequestEnd | undefined
  /** The entries and bytes that this cursor has not taken yet. */
  readonly behind: { readonly entries: number; readonly bytes: number }
  close(): void
}

export interface LogEntry {
  readonly position: number
  /** The received bytes, in the memory of the ring, which may overwrite them at its next entry. */
  readonly bytes: Uint8Array
  /** The receive time, in milliseconds since the epoch. */
  readonly receivedMs: number
}

export interface LogWriter {
  readonly request: LoggedRequest
  /**
   * Accepts the entry in any case; returns false if the caller should await `ready` before the next one. An
   * entry without progress belongs to the next one: both reach the log, or none.
   */
  append(bytes: Uint8Array, progress?: StoredProgress): boolean
  /** Resolves when there is room, and when the request was ended by others. */
  ready(): Promise<void>
  /**
   * How others ended the writer, undefined while it runs: interrupted, or lost to another producer because
   * this process was silent for too long, or continued by its producer in another call. Later entries are
   * ignored.
   */
  readonly endedBy: WriterEnd | undefined
  onEnded(listener: (end: WriterEnd) => void): void
  /**
   * The producer is disconnected: the request gets this end unless it is continued within the grace period.
   */
  suspend(end: RequestEnd): void
  /** Resolves when consumers can read every entry and the end; rejects with `unavailable`. */
  end(end: RequestEnd): Promise<void>
}

/**
 * `completed`: the producer has sent its last status itself, as an entry. Otherwise consumers get `status`
 * after the last entry.
 */
export type RequestEnd =
  | { readonly how: 'completed' }
  | { readonly how: 'interrupted' | 'lost' | 'refused' | 'superseded'; readonly status: Status }

/** The end of a writer: the end of its request, or `continued` if another writer continues the request. */
export type WriterEnd = RequestEnd | { readonly how: 'continued' }

/** The last status of an interrupted request for consumers, and the response to its producer. */
export const interruptedStatus: Status = { code: 'INFO', message: 'interrupted' }

/** The end of a request whose producer's process ends during the push. */
export const shutdownEnd: RequestEnd = { how: 'lost', status: { code: 'ERROR', message: 'shutting down' } }

/** The end of a request whose lost producer pushes again without a resume token. */
export const restartedEnd = {
  how: 'lost',
  status: { code: 'ERROR', message: 'the producer is gone: it came back without a resume token' },
} as const satisfies RequestEnd

/**
 * The end as JSON for programs. A completed request has the status of its producer as its last message, which
 * the log does not read.
 */
export const toEndJson = (end: RequestEnd) =>
  end.how === 'completed' ? { how: end.how } : { how: end.how, ...end.status }

/** The end as text, for producers and logs. */
export const describeEnd = (end: RequestEnd): string =>
  end.how === 'completed' ? end.how : end.status.message

/** The time after an interruption in which pushes of the same ids are rejected. */
export const interruptedMs = 60_000

/** The overhead that counts for each entry, so that a flood of empty messages is bounded too. */
export const logEntryOverheadBytes = 256

export class LogRejection extends ExpectedError {
  readonly reason: 'exists' | 'interrupted' | 'unavailable' | 'expired' | 'ended' | 'forged' | 'spent'

  constructor(reason: LogRejection['reason'], message: string) {
    super(message)
    this.reason = reason
  }
}

/** The rejections that every log gives with the same text. */

export const shuttingDownRejection = () => new LogRejection('unavailable', 'the broker is shutting down')

export const duplicateIdsRejection = () => new LogRejection('exists', 'a push with the same ids is running')

export const interruptedRejection = () => new LogRejection('interrupted', 'the request was interrupted')

export const unreadableRejection = () => new LogRejection('unavailable', 'the log cannot be read')

export const messagesExpiredRejection = () =>
  new LogRejection('expired', 'no message of the request is kept any more')

export const runExpiredRejection = (run: string) =>
  new LogRejection('expired', `the run ${JSON.stringify(run)} is not kept any more`)

export const endedRejection = (how: string) => new LogRejection('ended', `the request has ended: ${how}`)
