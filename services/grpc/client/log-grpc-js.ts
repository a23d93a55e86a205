import { setLogger } from '@grpc/grpc-js'
import type { Log } from '@tollway/chassis/log/log.ts'

/**
 * Redirects the messages of grpc-js from standard error to the log: `error` as warnings, since the affected
 * calls report their own errors. The library has one logger for the process, so the last call decides.
 */
export function logGrpcJs(log: Log): void {
  setLogger({
    error: (text: string) => log.warn('report library output', { library: 'grpc-js', text }),
    info: (text: string) => log.info('report library output', { library: 'grpc-js', text }),
    debug: (text: string) => log.debug('report library output', { library: 'grpc-js', text }),
  })
}
