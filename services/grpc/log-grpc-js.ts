import { setLogger } from '@grpc/grpc-js'
import type { Log } from '@tollway/chassis/log.ts'

/**
 * Sends the messages of grpc-js to the log instead of standard error: `error` as warnings, since the calls that they
 * concern report their own errors. The library has one logger in a process, so the last call decides.
 */
export function logGrpcJs(log: Log): void {
  setLogger({
    error: (text: string) => log.warn('gRPC library', { reason: text }),
    info: (text: string) => log.info('gRPC library', { reason: text }),
    debug: (text: string) => log.debug('gRPC library', { reason: text }),
  })
}
