import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from '@grpc/grpc-js'
import { readKeys, writeResponse } from './codec.ts'
import { createHits } from './hits.ts'

/**
 * A typical implementation: the stock gRPC server with bare buffers and a handwritten codec, and two Redis
 * command objects for each descriptor; without rules and statistics. The service is compared with it.
 * `grpc.ts GRPC_PORT REDIS_PORT LIMIT`.
 */
const [grpcPort = '', redisPort = '', limit = ''] = process.argv.slice(2)
const hit = createHits(Number(redisPort))
const requestsPerUnit = Number(limit)
const identity = (bytes: Buffer) => bytes

const server = new Server()
server.addService(
  {
    ShouldRateLimit: {
      path: '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
      requestStream: false,
      responseStream: false,
      requestSerialize: identity,
      requestDeserialize: identity,
      responseSerialize: identity,
      responseDeserialize: identity,
    },
  },
  {
    ShouldRateLimit(call: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>) {
      Promise.all(readKeys(call.request).map(hit)).then(
        values => done(null, writeResponse(values, requestsPerUnit)),
        error => done(error),
      )
    },
  },
)
server.bindAsync(`127.0.0.1:${grpcPort}`, ServerCredentials.createInsecure(), error => {
  if (error) throw error
  process.stdout.write('serving\n')
})
