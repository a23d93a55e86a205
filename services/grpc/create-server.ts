import type { GrpcServer, GrpcServerOptions } from './server.ts'
import { createSocketServer } from './socket-server.ts'

/**
 * The gRPC server of every process of ours. Callers know the contract; which transport fulfils it is said
 * here only.
 */
export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  return createSocketServer(options)
}
