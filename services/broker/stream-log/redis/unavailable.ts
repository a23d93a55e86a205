import { LogRefusal } from '../stream-log.ts'

/** The problem of a Redis that answers, but rejects writes because it has reached its `maxmemory`. */
export const outOfMemory = 'the log is out of memory'

/**
 * Redis begins the error with `OOM`; an error from a script may have `ERR` and the script's name before it.
 */
export function isOutOfMemory(error: unknown): boolean {
  return error instanceof Error && /\bOOM command not allowed/.test(error.message)
}

/** @throws LogRefusal `unavailable` for the error of a Redis command */
export function unavailable(error: unknown): never {
  throw new LogRefusal('unavailable', isOutOfMemory(error) ? outOfMemory : 'the log cannot be reached')
}
