import { createGrpcJsServer } from './grpc-js-server.ts'
import { serverContract } from './server-contract.ts'

serverContract('grpc-js server', createGrpcJsServer)
