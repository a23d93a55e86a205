import { ExpectedError } from '@tollway/chassis/expected-error.ts'
import type { AnimationIds } from '../wire/animation-ids.ts'
import type { Status } from '../wire/status.ts'
import type { ByteBudget } from './byte-budget.ts'

/**
 * Connects producers and consumers. A request is one push: an append-only list of entries, kept in a ring
 * that is bounded by bytes and time. Each consumer is a position in that ring, so the kept data does not grow
 * with the number of consumers. In memory, the log belongs to one process. In Redis, several brokers share
 * it: for each request that one of its consumers reads, a process then has a ring that is filled from Redis.
 *
 * `testing/stream-log.contract.ts` tests every implementation against this interface.
 */
export interface StreamLog {
  /**
   * Begins a request. Rejects with a `LogRejection`: `exists` while a request with the same three ids is
   * running, `interrupted` for `interruptedMs` after an interruption of these ids, `unavailable` if the log
   * cannot be reached.
   */
  open(opening: Opening): Promise<LogWriter>
  /**
   * Ends the request with these ids whose producer is lost, because the producer begins it again without a
   * resume token. Resolves with whether it has ended one. It ends none if the producer is connected or had
   * another bearer token. Rejects with a `LogRejection` `unavailable` if the log cannot be reached.
   */
  endLost(opening: Pick<Opening, 'ids' | 'bearerHash'>): Promise<boolean>
  /**
   * Continues a request at this process with a resume token, wherever the producer was connected before. The
   * previous writer ends with `continued`: it accepts no more entries. Rejects with a `LogRejection`: `spent`
   * for a token of an earlier use, `forged` for any other invalid token, `ended` for a request that has
   * ended, `expired` for one that is not kept any more, `unavailable` if the log cannot be reached.
   */
  resume(resumption: Resumption): Promise<ResumedRequest>
  /**
   * Reports the existing requests that match the ids, oldest first, and then each new one, until the returned
   * function is called. Existing requests that are known are reported before it returns. Each request is
   * reported once.
   */
  watch(wanted: AnimationIds, onRequest: (request: LoggedRequest) => void): () => void
  /** The known requests, oldest first. They are running, or ended and still kept. */
  list(): readonly LoggedRequest[]
  /**
   * Ends running requests with INFO "interrupted", wherever their producers are, and rejects further pushes
   * of these ids for `interruptedMs`, even if no such request was running. An empty request id matches all
   * running requests of the stream. The stream's next requests are accepted then, even one without a request
   * id, which is a different request each time. Returns the number of requests that were ended.
   */
  interrupt(streamId: string, requestId: string): Promise<number>
  readonly healthy: boolean
  /** Why the log is not healthy, as text for operators; empty if it is. */
  readonly problem: string
  onHealth(listener: (healthy: boolean) => void): () => void
  /**
   * Reports each end that this process has given to a request, once, until the returned function is called.
   * Of all processes that share the log, only the one whose end is effective reports it, wherever the
   * producer was connected.
   */
  onEnd(listener: EndListener): () => void
  /** The memory limit of this process. Calls also count the bytes in their sinks there. */
  readonly budget: ByteBudget
  /** Ends the requests of this process's producers with ERROR "shutting down", and stops all reports. */
  close(): Promise<void>
}

export interface Opening {
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  /** The name of the request's route, for lists. */
  readonly route: string
  /**
   * The hash of the producer's bearer token; empty if the route requires none. When the producer is lost, a
   * push with the same hash may end the request.
   */
  readonly bearerHash: string
  /** The bytes of the header message, as received. The header is entry 0, and never dropped. */
  readonly header: Uint8Array
  readonly limits: RingLimits
  /** The `traceparent` of the push, so that pulls belong to the same trace; empty if there is none. */
  readonly traceparent: string
  /** Lets the producer continue the request; undefined if it cannot. */
  readonly resume?: ResumeGrant
  /** The progress after the header. */
  readonly progress?: StoredProgress
}

/**
 * Allows a producer to continue its request. The owner of the log creates and checks tokens; the log stores
 * only hashes.
 */
interface ResumeGrant {
  /** The hash of the first resume token, in hexadecimal. */
  readonly tokenHash: string
  /** After `LogWriter.suspend`, the request waits this long for its producer. */
  readonly graceMs: number
}

export interface Resumption {
  /** The key of the request. */
  readonly run: string
  /** The number of earlier continuations, according to the token. */
  readonly uses: number
  readonly tokenHash: string
  /** The hash of the token that replaces the used one, which stays valid until the first entry after this. */
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
 * Called with a request and its end. `progress` is that after the last entry; undefined if the producer was
 * not connected to this process. Must not throw.
 */
export type EndListener = (
  request: LoggedRequest,
  end: RequestEnd,
  progress: StoredProgress | undefined,
) => void

/** The state of the log's owner after an entry: JSON that the log stores but does not read. */
export type StoredProgress = object

export interface RingLimits {
  /**
   * The ring keeps at most this many bytes, not counting the header but `logEntryOverheadBytes` for each
   * entry. There is always room for one entry.
   */
  readonly bytes: number
  readonly ms: number
  /** An ended request is kept for this time, for consumers that still read it or join late. */
  readonly keepMs: number
  /**
   * When the ring is full, the oldest entries are dropped (`trim`), or the producer waits for the slowest
   * consumer (`wait`).
   */
  readonly whenFull: 'trim' | 'wait'
}

export interface LoggedRequest {
  /** Unique among all requests that ever ran: two pushes of the same ids are two requests. */
  readonly key: string
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  readonly route: string
  readonly traceparent: string
  /** When the request began, in milliseconds since the epoch. */
  readonly openedMs: number
  readonly ended: boolean
  /** Undefined while the request is running. */
  readonly end: RequestEnd | undefined
  /**
   * Starts to read. Rejects with a `LogRejection`: `unavailable` if the log cannot be reached, `expired` if
   * no entry is kept any more.
   */
  read(reader: RingReader): Promise<RingCursor>
}

/** The owner of a cursor. Callbacks run in the turn of the event and must not throw. */
export interface RingReader {
  /**
   * Called when the cursor has more entries, or the request has ended, after `next` has returned undefined.
   */
  onReadable(): void
  /**
   * True for a reader that is queued. Its cursor holds no entries until `RingCursor.hold`: the producer does
   * not wait for it, and entries that are dropped in the meantime are a gap.
   */
  readonly waiting?: boolean
}

/** A position in a ring. Positions count the messages of the request from 0, the header. */
export interface RingCursor {
  /** The position of the entry that `next` returns. */
  readonly position: number
  /**
   * From now on, entries from the cursor's position on are kept for it, within the limits of the ring. Needed
   * only after `RingReader.waiting`.
   */
  hold(): void
  /** Returns the number of entries that were dropped before this cursor reached them, since the last call. */
  takeGap(): number
  /** Returns the next entry, or undefined if there is none yet. */
  next(): LogEntry | undefined
  /**
   * Moves to a position, or to the oldest kept entry if the position is older, which does not count as a gap.
   * The position may be after the newest entry: the cursor then waits for the entry with this position.
   * `last` is the newest entry, `newest` the position after it, and `lastMs` the oldest entry received in
   * that time. Position 0 is the header, which is always kept.
   */
  seek(to: number | 'oldest' | 'last' | 'newest' | { readonly lastMs: number }): void
  /** The end of the request, once the cursor has taken every entry; undefined before. */
  readonly end: RequestEnd | undefined
  /** What this cursor has not taken yet. */
  readonly behind: { readonly entries: number; readonly bytes: number }
  close(): void
}

export interface LogEntry {
  readonly position: number
  /**
   * The received bytes. They are in the memory of the ring, which may overwrite them when it gets its next
   * entry.
   */
  readonly bytes: Uint8Array
  /** When the entry was received, in milliseconds since the epoch. */
  readonly receivedMs: number
}

export interface LogWriter {
  readonly request: LoggedRequest
  /**
   * Accepts the entry in any case; returns false if the caller should await `ready` before the next one. An
   * entry without progress is tied to the next entry: both reach the log, or neither.
   */
  append(bytes: Uint8Array, progress?: StoredProgress): boolean
  /** Resolves when there is room for entries, or when the writer has ended. */
  ready(): Promise<void>
  /**
   * How others ended the writer; undefined before. The request was interrupted or ended as lost, or another
   * call has continued it. Later entries are ignored.
   */
  readonly endedBy: WriterEnd | undefined
  onEnded(listener: (end: WriterEnd) => void): void
  /**
   * Notes that the producer is disconnected: the request gets this end unless it is continued within the
   * grace period.
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

/** The end of a writer: the end of its request, or `continued` if another writer continues the request. */
export type WriterEnd = RequestEnd | { readonly how: 'continued' }

/** The last status of an interrupted request for consumers, and the response to its producer. */
export const interruptedStatus: Status = { code: 'INFO', message: 'interrupted' }

/** The end of a request whose producer's broker shuts down during the push. */
export const shutdownEnd: RequestEnd = { how: 'lost', status: { code: 'ERROR', message: 'shutting down' } }

/** The end of a request whose lost producer pushes again without a resume token. */
export const restartedEnd = {
  how: 'lost',
  status: { code: 'ERROR', message: 'the producer is gone: it came back without a resume token' },
} as const satisfies RequestEnd

/**
 * Returns the end as JSON for programs. It has no status for a completed request: the last message has it,
 * which the log does not read.
 */
export const toEndJson = (end: RequestEnd) =>
  end.how === 'completed' ? { how: end.how } : { how: end.how, ...end.status }

/** Returns the end as text, for producers and logs. */
export const describeEnd = (end: RequestEnd): string =>
  end.how === 'completed' ? end.how : end.status.message

/** After an interruption, pushes of the same ids are rejected for this time, in milliseconds. */
export const interruptedMs = 60_000

/** Counted for each entry in addition to its bytes, so that a flood of empty messages is bounded too. */
export const logEntryOverheadBytes = 256

export class LogRejection extends ExpectedError {
  readonly reason: 'exists' | 'interrupted' | 'unavailable' | 'expired' | 'ended' | 'forged' | 'spent'

  constructor(reason: LogRejection['reason'], message: string) {
    super(message)
    this.reason = reason
  }
}

/** Rejections whose texts all implementations share. */

export const shuttingDownRejection = () => new LogRejection('unavailable', 'the broker is shutting down')

export const duplicateIdsRejection = () => new LogRejection('exists', 'a push with the same ids is running')

export const interruptedRejection = () => new LogRejection('interrupted', 'the request was interrupted')

export const unreadableRejection = () => new LogRejection('unavailable', 'the log cannot be read')

export const messagesExpiredRejection = () =>
  new LogRejection('expired', 'no message of the request is kept any more')

export const runExpiredRejection = (run: string) =>
  new LogRejection('expired', `the run ${JSON.stringify(run)} is not kept any more`)

export const endedRejection = (how: string) => new LogRejection('ended', `the request has ended: ${how}`)
