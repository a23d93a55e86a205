import type { Log, LogFields } from '@tollway/chassis/log/log.ts'

/** A log whose lines have the number of the worker. */
export function logOfWorker(log: Log, worker: number): Log {
  const withWorker = (fields?: LogFields) => ({ worker, ...fields })
  return {
    debug: (message, fields) => log.debug(message, withWorker(fields)),
    info: (message, fields) => log.info(message, withWorker(fields)),
    warn: (message, fields) => log.warn(message, withWorker(fields)),
    error: (message, fields) => log.error(message, withWorker(fields)),
  }
}
