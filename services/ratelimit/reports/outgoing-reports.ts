import type { BidiCall } from '@tollway/grpc/client/client.ts'
import type { Report, Request } from './report-codec.ts'

/** Reports that wait for the operator. Beyond it, those that a later one replaces are dropped. */
const maxWaiting = 32
/** Answers beyond this number are dropped too: the operator does not read. */
const maxWaitingAnswers = 1_000

/** The reports of the open stream. Without one, reports are dropped. */
export class OutgoingReports {
  #call: BidiCall<Report, Request> | undefined
  #waiting = 0
  #dropped = 0

  open(call: BidiCall<Report, Request>): void {
    this.#call = call
    this.#waiting = 0
  }

  close(): void {
    this.#call = undefined
  }

  hasRoom(): boolean {
    return this.#waiting < maxWaiting
  }

  /** Returns the number of reports that were dropped because the operator did not read. */
  dropped(): number {
    return this.#dropped
  }

  /** `isOptional` reports are dropped earlier than answers. */
  send(report: Report, isOptional: boolean): void {
    const call = this.#call
    if (call === undefined) return
    if (this.#waiting >= (isOptional ? maxWaiting : maxWaitingAnswers)) {
      this.#dropped += 1
      return
    }
    this.#waiting += 1
    void call.write(report).then(() => {
      if (this.#call === call) this.#waiting -= 1
    })
  }
}
