import { createGrpcJsServer } from './testing/contract/grpc-js-server.ts'
import { serverContract } from './testing/server.contract.ts'

serverContract('grpc-js server', createGrpcJsServer)
