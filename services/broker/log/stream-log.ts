import { ExpectedError } from '@tollway/chassis/expected-error.ts'
import type { AnimationIds } from '../wire/animation-ids.ts'
import type { Status } from '../wire/status.ts'

/**
 * Where producers put messages and consumers find them. A request is one push: an append-only list of
 * entries, kept in a ring that is bounded by bytes and time. Each consumer is a position in that ring, so
 * that what is kept for a request does not grow with its consumers. In memory the log is one process's own;
 * in Redis brokers share it, and a process then has a ring, filled from Redis, of each request that one of
 * its consumers reads.
 *
 * `stream-log-contract.ts` holds every fulfilment to what is said here.
 */
export interface StreamLog {
  /**
   * Begins a request. Rejects with a `LogRefusal`: `exists` while a producer of the same three ids is there,
   * `interrupted` shortly after the request was interrupted, `unavailable` when the log cannot be reached.
   */
  open(opening: Opening): Promise<RequestWriter>
  /**
   * Continues a request whose producer has shown a resume token, at this process, wherever the producer was
   * before. The writer that the request had is continued: it takes nothing more. Rejects with a `LogRefusal`:
   * `forged` and `spent` for a token that is not the present one, `ended` for a request that has ended,
   * `gone` for one that is not kept, `unavailable` when the log cannot be reached.
   */
  resume(resumption: Resumption): Promise<ResumedRequest>
  /**
   * Tells of the requests that are there now, oldest first, before it returns or as soon as they are known,
   * then of each that begins, until the returned function is called. A request is told once.
   */
  watch(wanted: AnimationIds, onRequest: (request: LoggedRequest) => void): () => void
  /** The requests that are known here, oldest first: running, or ended and still kept. */
  list(): readonly LoggedRequest[]
  /**
   * Ends requests with INFO "interrupted", wherever their producers are, and refuses further pushes of these
   * ids for `interruptedMs`, also when none of them has begun yet. An empty request id means those of the
   * stream that run now: the stream's next requests are welcome, and so is the next one without a request id,
   * which is another one each time. Answers how many running requests were ended.
   */
  interrupt(streamId: string, requestId: string): Promise<number>
  readonly healthy: boolean
  /** What keeps it from being healthy, for people; empty when nothing does. */
  readonly problem: string
  onHealth(listener: (healthy: boolean) => void): () => void
  /** Requests of this process's producers end with ERROR "shutting down"; nothing is told any more. */
  close(): Promise<void>
}

export interface Opening {
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  /** The name of the route, for lists. */
  readonly route: string
  /** The bytes of the header message, as received: entry 0, which is never trimmed. */
  readonly header: Uint8Array
  readonly limits: RingLimits
  /** `traceparent` of the push, so that pulls belong to the same trace; empty without one. */
  readonly traceparent: string
  /** Without it nobody can continue the request. */
  readonly resume?: ResumeGrant
  /** What is known after the header. */
  readonly progress?: Progress
}

/**
 * By what a producer may continue its request. Tokens are the concern of the owner of the log; it keeps
 * hashes.
 */
export interface ResumeGrant {
  /** Hexadecimal. */
  readonly tokenHash: string
  /** How long the request waits for its producer after `RequestWriter.suspend`. */
  readonly graceMs: number
}

export interface Resumption {
  /** The key of the request. */
  readonly run: string
  /** How often the request was continued before, as the token says. */
  readonly uses: number
  readonly tokenHash: string
  /** The hash of the token that takes its place; the old one is good until the first entry after this. */
  readonly nextTokenHash: string
}

export interface ResumedRequest {
  readonly writer: RequestWriter
  readonly header: Uint8Array
  /** How often the request was continued, this time included. */
  readonly uses: number
  /** What came with the last entry that the log has. */
  readonly progress: Progress
}

/** What the producer's owner knows after an entry; JSON that the log does not look into. */
export type Progress = object

export interface RingLimits {
  /** Of the entries together, the header aside, with `entryOverheadBytes` for each. One always has room. */
  readonly bytes: number
  readonly ms: number
  /** How long an ended request stays, for consumers that still read it or come late. */
  readonly keepMs: number
  /** Whether the oldest entries make room, or the producer waits for the slowest consumer. */
  readonly whenFull: 'trim' | 'wait'
}

export interface LoggedRequest {
  /** Unique for ever: two pushes of the same ids are two requests. */
  readonly key: string
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  readonly route: string
  readonly traceparent: string
  /** Milliseconds since the epoch. */
  readonly openedMs: number
  readonly ended: boolean
  /**
   * Begins to read. The ring is filled as long as somebody reads. Rejects with a `LogRefusal` `unavailable`,
   * or `gone` when nothing is kept any more.
   */
  read(reader: RingReader): Promise<RingCursor>
}

/** The owner of a cursor. Callbacks run in the turn of the event and must not throw. */
export interface RingReader {
  /** Reports that the cursor has more entries to give, or that the request has ended. */
  onNews(): void
  /**
   * True for a reader whose turn has not come. Its cursor holds no entry until `RingCursor.hold`: the
   * producer does not wait for it, and entries that are trimmed meanwhile are a gap.
   */
  readonly waiting?: boolean
}

/** A position in a ring. Positions count the request's messages from 0, the header. */
export interface RingCursor {
  /** The position of the entry that `next` would give. */
  readonly position: number
  /** Holds the entries from its position on, as the limits of the ring allow. Needed after `waiting` only. */
  hold(): void
  /** Entries that were trimmed before this cursor came to them, since it was asked last. */
  takeGap(): number
  /** The next entry, or undefined when there is none yet. */
  next(): Entry | undefined
  /**
   * Moves to a position; to the oldest entry that is kept when that is gone, which counts as no gap. The
   * position may be behind the newest entry: then the next entry is the one that gets it. `last` is the
   * newest entry, `newest` the position behind it. The header is given in any case when `position` is 0.
   */
  seek(to: number | 'oldest' | 'last' | 'newest' | { readonly lastMs: number }): void
  /** How the request ended, once every entry was taken; undefined before. */
  readonly end: RequestEnd | undefined
  /** Entries and bytes that wait for this cursor. */
  readonly behind: { readonly entries: number; readonly bytes: number }
  close(): void
}

export interface Entry {
  readonly position: number
  /** As received. They lie in the memory of the ring, which may use it for others at its next entry. */
  readonly bytes: Uint8Array
  /** When it came in, in milliseconds since the epoch. */
  readonly receivedMs: number
}

export interface RequestWriter {
  readonly request: LoggedRequest
  /**
   * Takes the entry in any case; false when `ready` should be awaited before the next one. An entry without
   * progress belongs to the next one: both reach the log, or none.
   */
  append(bytes: Uint8Array, progress?: Progress): boolean
  /** Resolves when there is room, and when the request was ended by others. */
  ready(): Promise<void>
  /**
   * How it was ended by others, undefined while it runs: interrupted, or lost to another producer because
   * this process was not heard of for too long, or continued by its producer in another call. What is
   * appended then goes nowhere.
   */
  readonly endedBy: WriterEnd | undefined
  onEnded(listener: (end: WriterEnd) => void): void
  /** The producer is gone: the request gets this end unless it is continued within the grace. */
  suspend(end: RequestEnd): void
  /** Resolves when every entry and the end are where consumers find them; rejects with `unavailable`. */
  end(end: RequestEnd): Promise<void>
}

/**
 * `completed`: the producer sent its last status itself, as an entry. Otherwise consumers get `status` after
 * the last entry.
 */
export type RequestEnd =
  | { readonly how: 'completed' }
  | { readonly how: 'interrupted' | 'lost' | 'refused' | 'superseded'; readonly status: Status }

/**
 * The end of a writer: that of its request, or `continued`, where the request goes on with another writer.
 */
export type WriterEnd = RequestEnd | { readonly how: 'continued' }

/** What consumers get at the end of a request that somebody interrupted, and its producer as the answer. */
export const interruptedStatus: Status = { code: 'INFO', message: 'interrupted' }

/** What they get when the producer's process ends while it pushes. */
export const shuttingDownStatus: Status = { code: 'ERROR', message: 'shutting down' }

/** The end in words, for producers and logs. */
export const describeEnd = (end: RequestEnd): string =>
  end.how === 'completed' ? end.how : end.status.message

/** After an interruption pushes of the same ids are refused for so long. */
export const interruptedMs = 60_000

/** What an entry counts besides its bytes, so that a flood of empty messages is bounded too. */
export const entryOverheadBytes = 256

export class LogRefusal extends ExpectedError {
  readonly reason: 'exists' | 'interrupted' | 'unavailable' | 'gone' | 'ended' | 'forged' | 'spent'

  constructor(reason: LogRefusal['reason'], message: string) {
    super(message)
    this.reason = reason
  }
}
