import { setTimeout } from 'node:timers/promises'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { type BidiCall, createGrpcClient } from '@tollway/grpc/client/client.ts'
import type { Metadata } from '@tollway/grpc/server.ts'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import {
  type AnimationDataStream,
  AnimationDataStreamSchema,
  AnimationIdsSchema,
  type Status,
  StatusSchema,
} from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'
import { ReceivedRun } from './received-run.ts'

const animationService = 'neutral_ace.services.animation_data.v1.AnimationDataService'

export type StreamPart = NonNullable<MessageInitShape<typeof AnimationDataStreamSchema>['streamPart']>

/** A client of the broker. It continues a request after a lost connection. */
interface AnimationClient {
  /**
   * Sends the parts until the iteration ends or the broker answers. After a lost connection, the client
   * continues the request with the resume token of the broker, and so keeps all parts in memory.
   */
  push(parts: AsyncIterable<StreamPart>): Promise<Status>
  /**
   * Returns the messages of the matching requests. An empty id matches every id. After a lost connection, the
   * client resumes after the last received message.
   */
  pull(
    ids: MessageInitShape<typeof AnimationIdsSchema>,
    signal: AbortSignal,
  ): AsyncIterable<AnimationDataStream>
  close(): void
}

/**
 * @param target `host:port` of the broker
 * @param token a token of the route; undefined if the route requires none
 */
export function createAnimationClient(target: string, token: string | undefined): AnimationClient {
  const client = createGrpcClient(target)
  const metadata = new Map(token === undefined ? [] : [['authorization', [`Bearer ${token}`]]])

  return {
    async push(parts) {
      const request: PushedParts = {
        source: parts[Symbol.asyncIterator](),
        sent: [],
        reading: undefined,
        token: undefined,
      }
      for (let failures = 0; ; failures += 1) {
        const { token } = request
        const resume: Metadata = new Map(token === undefined ? [] : [[resumeMetadata, [token]]])
        const call = client.bidi(`/${animationService}/PushAnimationDataStream`, pushCodec, {
          metadata: new Map([...metadata, ...resume]),
        })
        try {
          return await pushOnce(call, request)
        } catch (error) {
          if (!isLost(error) || request.token === undefined || failures === maxFailures) throw error
          await setTimeout(retryMs)
        }
      }
    },
    async *pull(ids, signal) {
      const received = new ReceivedRun()
      for (let failures = 0; ; failures += 1) {
        received.begin()
        const call = client.bidi(`/${animationService}/PullAnimationDataStream`, pullCodec, {
          metadata: new Map([...metadata, [receivedMetadata, [received.metadata()]]]),
          signal,
        })
        call.write(create(AnimationIdsSchema, ids)).catch(() => {}) // The iteration below has the error.
        call.end()
        try {
          for await (const message of call.messages) {
            failures = 0
            yield* received.take(message)
          }
          return
        } catch (error) {
          if (!isLost(error) || failures === maxFailures) throw error
          await setTimeout(retryMs, undefined, { signal })
        }
      }
    },
    close: client.close,
  }
}

const isLost = (error: unknown) => error instanceof GrpcError && error.code === statusCodes.UNAVAILABLE

/** The metadata in which a consumer sends the run and the number of its received messages. */
const receivedMetadata = 'tollway-received'
/** The metadata with the token with which a producer continues its request. */
const resumeMetadata = 'tollway-resume'
/** The metadata in which the broker answers with the number of the message to send next. */
const nextMetadata = 'tollway-next'
/**
 * The client gives up after this many failures: with pauses of 250 ms they take 5 s, for which a broker waits
 * for a lost producer by default.
 */
const maxFailures = 20
const retryMs = 250

interface PushedParts {
  readonly source: AsyncIterator<StreamPart>
  /** The messages that have been read from the source. The first one is the header. */
  readonly sent: AnimationDataStream[]
  reading: Promise<void> | undefined
  token: string | undefined
}

/**
 * Makes one call of a push. The call begins the request, or continues it at the message that the broker
 * names.
 */
async function pushOnce(call: BidiCall<AnimationDataStream, Status>, request: PushedParts): Promise<Status> {
  const { sent } = request
  let isAnswered = false
  const answer = readFirst(call.messages).finally(() => {
    isAnswered = true
  })
  answer.catch(() => {})
  const headers = call.headers.then(metadata => {
    const [token] = metadata.get(resumeMetadata) ?? []
    if (token !== undefined) request.token = String(token)
    return Number(metadata.get(nextMetadata)?.[0] ?? 0)
  })
  let next = request.token === undefined ? 0 : await Promise.race([headers, answer.then(() => sent.length)])
  for (; !isAnswered; next += 1) {
    // The wait also ends when the call is lost. The next call then sends the part.
    if (sent[next] === undefined) await Promise.race([readNext(request), answer])
    const message = sent[next]
    if (message === undefined) break
    await call.write(message)
  }
  call.end()
  return await answer
}

/** Reads the next message into `sent`. Concurrent calls share one read. */
function readNext(request: PushedParts): Promise<void> {
  request.reading ??= request.source.next().then(({ value: streamPart, done }) => {
    request.reading = undefined
    if (done !== true) request.sent.push(create(AnimationDataStreamSchema, { streamPart }))
  })
  return request.reading
}

const pushCodec = {
  encode: (message: AnimationDataStream) => toBinary(AnimationDataStreamSchema, message),
  decode: (bytes: Uint8Array) => fromBinary(StatusSchema, bytes),
}

const pullCodec = {
  encode: (ids: MessageInitShape<typeof AnimationIdsSchema>) =>
    toBinary(AnimationIdsSchema, create(AnimationIdsSchema, ids)),
  decode: (bytes: Uint8Array) => fromBinary(AnimationDataStreamSchema, bytes),
}

async function readFirst<Item>(items: AsyncIterable<Item>): Promise<Item> {
  for await (const item of items) return item
  throw new Error('the call ended without an answer')
}
