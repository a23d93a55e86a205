import type { AnimationDataStream } from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'

/** The run that a consumer receives and the number of its messages, by which a later pull continues. */
interface ReceivedRun {
  /** The value of the metadata `tollway-received` for the next pull. */
  metadata(): string
  /** Returns the messages to show for this one: none for a repeated header and for the name of a run. */
  take(message: AnimationDataStream): readonly AnimationDataStream[]
  /** Called before each pull: a header without the name of its run comes again. */
  begin(): void
}

const namedRun = /^run (\S+), the next is message \d+$/
const nextMessage = /the next is message (\d+)$/

export function createReceivedRun(): ReceivedRun {
  let run: string | undefined
  let count = 0
  /** A status that came last is not counted: if it is the request's, it comes again. */
  let lastStatus = 0
  let header: AnimationDataStream | undefined

  function add({ streamPart: { case: part, value } }: AnimationDataStream): void {
    count += lastStatus
    lastStatus = 0
    if (part !== 'status') count += 1
    else {
      const next = nextMessage.exec(value.message)?.[1]
      if (next === undefined) lastStatus = 1
      else count = Number(next)
    }
  }

  /** The status with the name of the run follows each header. A broker that does not know runs sends none. */
  function takeName(
    message: AnimationDataStream,
    named: AnimationDataStream,
  ): readonly AnimationDataStream[] {
    const { case: part, value } = message.streamPart
    const name = part === 'status' ? namedRun.exec(value.message)?.[1] : undefined
    if (name === undefined) {
      run = undefined
      return [named, message]
    }
    const isNew = name !== run
    run = name
    lastStatus = 0
    add(message)
    return isNew ? [named] : []
  }

  return {
    metadata: () => (run === undefined ? 'none' : `${run}=${count}`),
    take(message) {
      if (message.streamPart.case === 'animationDataStreamHeader') {
        header = message
        return []
      }
      const named = header
      header = undefined
      if (named !== undefined) return takeName(message, named)
      add(message)
      return [message]
    },
    begin() {
      header = undefined
    },
  }
}
