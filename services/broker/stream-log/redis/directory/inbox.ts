import { decodeReports } from '../reading/position-reports.ts'
import type { FollowedStream } from '../reading/read-loop.ts'
import type { RedisLogSetup } from '../setup.ts'
import type { Directory } from './directory.ts'

/**
 * The stream of messages for this broker only: reports of readers at other brokers, and questions whether the
 * producer of a request is connected. Its heartbeat creates it.
 */
export class Inbox implements FollowedStream {
  readonly streamKey: string
  readonly wanted = true
  readonly #directory: Directory
  readonly #answer: () => void
  #after = '0-0'

  /** @param answer called if the producer of an asked request is connected */
  constructor({ keys, podId }: RedisLogSetup, directory: Directory, answer: () => void) {
    this.streamKey = keys.inbox(podId)
    this.#directory = directory
    this.#answer = answer
  }

  get after(): string {
    return this.#after
  }

  take(id: string, [from, reports, , asked]: readonly Uint8Array[]): void {
    this.#after = id
    // The loss of a connection in this turn of the event loop is noticed before the answer.
    if (asked !== undefined) setImmediate(() => this.#answerIfConnected(String(asked)))
    if (reports === undefined || reports.length === 0) return
    this.#directory.takeReports(String(from), decodeReports(String(reports)))
  }

  #answerIfConnected(run: string): void {
    if (this.#directory.get(run)?.running?.isLost === false) this.#answer()
  }
}
