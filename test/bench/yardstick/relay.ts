import { fromBinary } from '@bufbuild/protobuf'
import {
  Server,
  ServerCredentials,
  type ServerReadableStream,
  type ServerWritableStream,
  type sendUnaryData,
} from '@grpc/grpc-js'
import {
  AnimationDataStreamSchema,
  AnimationIdsSchema,
} from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'

/**
 * A typical implementation: the stock gRPC server with bare buffers, which writes each message to each
 * consumer of its stream, and stops reading while one of them is not ready. It has no rules, late joiners,
 * limits or statistics. The broker is compared with it. `relay.ts GRPC_PORT`.
 */
const [grpcPort = ''] = process.argv.slice(2)
const service = '/neutral_ace.services.animation_data.v1.AnimationDataService'
const identity = (bytes: Buffer) => bytes
const codec = {
  requestSerialize: identity,
  requestDeserialize: identity,
  responseSerialize: identity,
  responseDeserialize: identity,
}

type Consumer = ServerWritableStream<Buffer, Buffer>
const consumersByStream = new Map<string, Set<Consumer>>()

function consumersOf(stream: string): Set<Consumer> {
  const found = consumersByStream.get(stream) ?? new Set()
  consumersByStream.set(stream, found)
  return found
}

function streamOf(header: Buffer): string {
  const { streamPart } = fromBinary(AnimationDataStreamSchema, header)
  return streamPart.case === 'animationDataStreamHeader'
    ? (streamPart.value.animationIds?.streamId ?? '')
    : ''
}

function push(call: ServerReadableStream<Buffer, Buffer>, done: sendUnaryData<Buffer>): void {
  let consumers: Set<Consumer> | undefined
  let busy = 0
  const onDrain = () => {
    busy -= 1
    if (busy === 0) call.resume()
  }
  call.on('data', (message: Buffer) => {
    consumers ??= consumersOf(streamOf(message))
    for (const consumer of consumers) {
      if (consumer.write(message)) continue
      busy += 1
      consumer.once('drain', onDrain)
    }
    if (busy > 0) call.pause()
  })
  call.on('end', () => {
    for (const consumer of consumers ?? []) consumer.end()
    done(null, Buffer.alloc(0))
  })
}

function pull(call: Consumer): void {
  const consumers = consumersOf(fromBinary(AnimationIdsSchema, call.request).streamId)
  consumers.add(call)
  call.on('close', () => consumers.delete(call))
}

const server = new Server()
server.addService(
  {
    PushAnimationDataStream: {
      path: `${service}/PushAnimationDataStream`,
      requestStream: true,
      responseStream: false,
      ...codec,
    },
    PullAnimationDataStream: {
      path: `${service}/PullAnimationDataStream`,
      requestStream: false,
      responseStream: true,
      ...codec,
    },
  },
  { PushAnimationDataStream: push, PullAnimationDataStream: pull },
)
server.bindAsync(`127.0.0.1:${grpcPort}`, ServerCredentials.createInsecure(), error => {
  if (error) throw error
  process.stdout.write('serving\n')
})
