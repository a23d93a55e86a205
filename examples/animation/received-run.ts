import type { AnimationDataStream } from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'

const runName = /^run (\S+), the next is message \d+$/
const nextMessage = /the next is message (\d+)$/

/**
 * Remembers the run that a consumer receives, and how many messages of it, so that a later pull can resume
 * there.
 */
export class ReceivedRun {
  #run: string | undefined
  #count = 0
  /**
   * 1 after a status, otherwise 0. A status is counted only when a message follows, since the last status of
   * a request is sent again.
   */
  #uncountedStatus = 0
  #header: AnimationDataStream | undefined

  /**
   * Call it before each pull: if the broker has not named the run of the last header yet, it sends the header
   * again.
   */
  begin(): void {
    this.#header = undefined
  }

  /** Returns the value of the metadata `tollway-received` for the next pull. */
  metadata(): string {
    return this.#run === undefined ? 'none' : `${this.#run}=${this.#count}`
  }

  /**
   * Returns the messages to show for a received one: none for a repeated header, or for a status that names a
   * run.
   */
  take(message: AnimationDataStream): readonly AnimationDataStream[] {
    if (message.streamPart.case === 'animationDataStreamHeader') {
      this.#header = message
      return []
    }
    const header = this.#header
    this.#header = undefined
    if (header !== undefined) return this.#takeRunName(message, header)
    this.#addToCount(message)
    return [message]
  }

  /** Reads the status that follows a header and names the run. Brokers of earlier versions do not send it. */
  #takeRunName(message: AnimationDataStream, header: AnimationDataStream): readonly AnimationDataStream[] {
    const { case: part, value } = message.streamPart
    const name = part === 'status' ? runName.exec(value.message)?.[1] : undefined
    if (name === undefined) {
      this.#run = undefined
      return [header, message]
    }
    const isNew = name !== this.#run
    this.#run = name
    this.#uncountedStatus = 0
    this.#addToCount(message)
    return isNew ? [header] : []
  }

  #addToCount({ streamPart: { case: part, value } }: AnimationDataStream): void {
    this.#count += this.#uncountedStatus
    this.#uncountedStatus = 0
    if (part !== 'status') {
      this.#count += 1
      return
    }
    const next = nextMessage.exec(value.message)?.[1]
    if (next === undefined) this.#uncountedStatus = 1
    else this.#count = Number(next)
  }
}
