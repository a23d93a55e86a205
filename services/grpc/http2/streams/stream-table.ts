import { ConnectionError, maxStreamId, StreamError } from '../frames/frames.ts'
import { ClosedStreams, endings } from './closed-streams.ts'
import { OpenStreams } from './open-streams.ts'
import type { Stream } from './stream.ts'

/**
 * The open streams, and how closed ones ended, which determines the treatment of late frames (RFC 9113, 5.1).
 */
export class ConnectionStreams {
  readonly #open = new OpenStreams()
  readonly #closed = new ClosedStreams()
  #unreleased = 0
  #lastId = 0
  #lastAcceptedId = maxStreamId

  /** The number of the last stream that the peer has begun; 0 before the first. */
  get lastId(): number {
    return this.#lastId
  }

  /** The concurrent streams: open ones, and closed ones whose handler still runs. */
  get unreleased(): number {
    return this.#unreleased
  }

  get isEmpty(): boolean {
    return this.#open.size === 0
  }

  /** Returns a copy: streams may close while the caller iterates. */
  openStreams(): readonly Stream[] {
    return this.#open.all()
  }

  open(id: number): Stream | undefined {
    return this.#open.get(id)
  }

  /**
   * Ignores streams that begin from now on. GOAWAY tells the peer that it may retry them on another
   * connection (RFC 9113, 6.8).
   */
  acceptNoMore(): void {
    this.#lastAcceptedId = this.#lastId
  }

  accepts(id: number): boolean {
    return id <= this.#lastAcceptedId
  }

  /** Records that the peer has begun this stream: it cannot begin streams with lower numbers any more. */
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

  /** Records that the handler of a closed stream has ended. */
  release(): void {
    this.#unreleased -= 1
  }

  /**
   * Returns the stream of a DATA frame; undefined if the frame is to be ignored, since this side has closed
   * the stream or does not accept it.
   *
   * @throws ConnectionError PROTOCOL_ERROR for a stream that was not begun, StreamError STREAM_CLOSED for a
   * stream that is not open for another reason
   */
  forData(id: number): Stream | undefined {
    const stream = this.forControl(id)
    if (stream || !this.accepts(id) || this.#closed.findEnding(id) === endings.BY_US) return stream
    throw new StreamError(id, 'STREAM_CLOSED', 'DATA of a closed stream')
  }

  /**
   * Returns the stream of trailers; undefined if they are to be ignored, since this side has closed the
   * stream.
   *
   * @throws ConnectionError STREAM_CLOSED for a stream that the peer has ended, PROTOCOL_ERROR for a stream
   * that is not open for another reason
   */
  forTrailers(id: number): Stream | undefined {
    const stream = this.#open.get(id)
    const ending = stream ? endings.UNKNOWN : this.#closed.findEnding(id)
    if (stream || ending === endings.BY_US) return stream
    if (ending === endings.BY_PEER) throw new ConnectionError('STREAM_CLOSED', `stream ${id} is closed`)
    throw new ConnectionError('PROTOCOL_ERROR', `stream ${id} is not newer than the last`)
  }

  /**
   * Returns the stream of any other frame; undefined for a closed stream, and for one that is not accepted.
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
