import { LogRefusal } from './stream-log.ts'

/** The refusals that every log gives in the same words. */

export const shutsDown = () => new LogRefusal('unavailable', 'the broker is shutting down')

export const idsInUse = () => new LogRefusal('exists', 'a push with the same ids is running')

export const wasInterrupted = () => new LogRefusal('interrupted', 'the request was interrupted')

export const notReadable = () => new LogRefusal('unavailable', 'the log cannot be read')

export const messagesGone = () => new LogRefusal('gone', 'no message of the request is kept any more')

export const runGone = (run: string) =>
  new LogRefusal('gone', `the run ${JSON.stringify(run)} is not kept any more`)

export const hasEnded = (how: string) => new LogRefusal('ended', `the request has ended: ${how}`)
