import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from '@grpc/grpc-js'
import {
  RateLimitResponse_Code as Code,
  RateLimitRequestSchema,
  RateLimitResponseSchema,
} from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { Redis } from 'ioredis'

/**
 * What one would build: the stock gRPC server and one command object of Redis a hit, with auto-pipelining, no
 * rules and no statistics. Everything else is measured against it. `yardstick.ts GRPC_PORT REDIS_PORT`.
 */
const [grpcPort = '', redisPort = ''] = process.argv.slice(2)
const redis = new Redis({ port: Number(redisPort), enableAutoPipelining: true })
const identity = (bytes: Buffer) => bytes
const windowSeconds = 3600

async function answer(bytes: Buffer): Promise<Buffer> {
  const { domain, descriptors } = fromBinary(RateLimitRequestSchema, bytes)
  const start = Math.floor(Date.now() / 1000 / windowSeconds) * windowSeconds
  const values = await Promise.all(
    descriptors.map(({ entries }) => {
      const key = `${domain}_${entries.map(({ key, value }) => `${key}_${value}_`).join('')}${start}`
      const value = redis.incrby(key, 1)
      redis.expire(key, windowSeconds)
      return value
    }),
  )
  const statuses = values.map(value => ({ code: Code.OK, limitRemaining: 1_000_000_000 - value }))
  return Buffer.from(
    toBinary(RateLimitResponseSchema, create(RateLimitResponseSchema, { overallCode: Code.OK, statuses })),
  )
}

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
      answer(call.request).then(
        bytes => done(null, bytes),
        error => done(error),
      )
    },
  },
)
server.bindAsync(`127.0.0.1:${grpcPort}`, ServerCredentials.createInsecure(), error => {
  if (error) throw error
  process.stdout.write('serving\n')
})
