import { createGrpcJsServer } from './server-contract/grpc-js-server.ts'
import { serverContract } from './server-contract.ts'

serverContract('grpc-js server', createGrpcJsServer)
