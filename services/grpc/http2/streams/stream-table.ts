import { ConnectionError, maxStreamId, StreamError } from '../frames/frames.ts'
import { ClosedStreams, endings } from './closed-streams.ts'
import { OpenStreams } from './open-streams.ts'
import type { Stream } from './stream.ts'

/** The streams of a connection, and the endings of closed ones (RFC 9113, 5.1). */
export class ConnectionStreams {
  readonly #open = new OpenStreams()
  readonly #closed = new ClosedStreams()
  /** The number of open streams and of closed ones whose handler still runs. */
  #unreleased = 0
  #lastId = 0
  #lastAcceptedId = maxStreamId

  /** The newest stream that the peer has begun, 0 before the first. */
  get lastId(): number {
    return this.#lastId
  }

  /** The number of streams that count against the limit of concurrent ones. */
  get unreleased(): number {
    return this.#unreleased
  }

  get isEmpty(): boolean {
    return this.#open.size === 0
  }

  /** Returns the open streams, as a copy. */
  openStreams(): readonly Stream[] {
    return this.#open.all()
  }

  open(id: number): Stream | undefined {
    return this.#open.get(id)
  }

  /** Ignores streams that begin later: the peer knows that it may retry them elsewhere (RFC 9113, 6.8). */
  acceptNoMore(): void {
    this.#lastAcceptedId = this.#lastId
  }

  accepts(id: number): boolean {
    return id <= this.#lastAcceptedId
  }

  /** Records that the peer begins this stream: skipped numbers are closed, and lower ones cannot begin. */
  use(id: number): void {
    this.#lastId = id
  }

  add(stream: Stream): void {
    this.#unreleased += 1
    this.#open.add(stream)
  }

  /** @param ending one of `endings` */
  close(id: number, ending: number): void {
    this.#open.delete(id)
    this.#closed.add(id, ending)
  }

  /** Records that the work on a closed stream has ended. */
  release(): void {
    this.#unreleased -= 1
  }

  /**
   * Returns the stream of a DATA frame; undefined when the frame is to be ignored.
   *
   * @throws ConnectionError PROTOCOL_ERROR, StreamError STREAM_CLOSED
   */
  forData(id: number): Stream | undefined {
    const stream = this.forControl(id)
    if (stream || !this.accepts(id) || this.#closed.findEnding(id) === endings.BY_US) return stream
    throw new StreamError(id, 'STREAM_CLOSED', 'DATA of a closed stream')
  }

  /**
   * Returns the stream of trailers; undefined when they are to be ignored.
   *
   * @throws ConnectionError STREAM_CLOSED, and PROTOCOL_ERROR for a number that cannot begin a stream any
   *   more
   */
  forTrailers(id: number): Stream | undefined {
    const stream = this.#open.get(id)
    const ending = stream ? endings.UNKNOWN : this.#closed.findEnding(id)
    if (stream || ending === endings.BY_US) return stream
    if (ending === endings.BY_PEER) throw new ConnectionError('STREAM_CLOSED', `stream ${id} is closed`)
    throw new ConnectionError('PROTOCOL_ERROR', `stream ${id} is not newer than the last`)
  }

  /**
   * Returns the stream of RST_STREAM and WINDOW_UPDATE; undefined for a closed stream.
   *
   * @throws ConnectionError PROTOCOL_ERROR for a stream that was not begun
   */
  forControl(id: number): Stream | undefined {
    const stream = this.#open.get(id)
    if (!stream && this.accepts(id) && (id > this.#lastId || id % 2 === 0)) {
      throw new ConnectionError('PROTOCOL_ERROR', `stream ${id} was not begun`)
    }
    return stream
  }
}
