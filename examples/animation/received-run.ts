import type { AnimationDataStream } from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'

const runName = /^run (\S+), the next is message \d+$/
const nextMessage = /the next is message (\d+)$/

/** The run that a consumer receives, and the number of its messages, by which a later pull resumes. */
export class ReceivedRun {
  #run: string | undefined
  #count = 0
  /** 1 after a status, which is counted with the next message: the status of the request is sent again. */
  #uncountedStatus = 0
  #header: AnimationDataStream | undefined

  /** Must be called before each pull: the broker sends a header again whose run it has not named yet. */
  begin(): void {
    this.#header = undefined
  }

  /** The value of the metadata `tollway-received` for the next pull. */
  metadata(): string {
    return this.#run === undefined ? 'none' : `${this.#run}=${this.#count}`
  }

  /** Returns the messages to show for a received one: none for a repeated header and for the name of a run. */
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

  /** Reads the status that follows a header and names its run. Older brokers do not send one. */
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
