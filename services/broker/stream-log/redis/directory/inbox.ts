import { decodeReports } from '../reading/position-reports.ts'
import type { FollowedStream } from '../reading/read-loop.ts'
import type { RedisLogSetup } from '../setup.ts'
import type { Directory } from './directory.ts'

/**
 * The stream of messages for this broker only: reports of readers at other brokers. Its heartbeat creates
 * it.
 */
export class Inbox implements FollowedStream {
  readonly streamKey: string
  readonly wanted = true
  readonly #directory: Directory
  #after = '0-0'

  constructor({ keys, podId }: RedisLogSetup, directory: Directory) {
    this.streamKey = keys.inbox(podId)
    this.#directory = directory
  }

  get after(): string {
    return this.#after
  }

  take(id: string, [from, reports]: readonly Uint8Array[]): void {
    this.#after = id
    if (reports === undefined || reports.length === 0) return
    this.#directory.takeReports(String(from), decodeReports(String(reports)))
  }
}
