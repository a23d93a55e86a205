import type { GrpcServer, GrpcServerOptions } from '../server.ts'
import { createSocketServer } from './socket-server.ts'

/**
 * Creates the gRPC server of every process. Callers depend on the contract; only this function selects the
 * implementation.
 */
export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  return createSocketServer(options)
}
