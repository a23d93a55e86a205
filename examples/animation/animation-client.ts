import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { createGrpcClient } from '@tollway/grpc/client.ts'
import {
  type AnimationDataStream,
  AnimationDataStreamSchema,
  AnimationIdsSchema,
  type Status,
  StatusSchema,
} from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'

export const animationService = 'neutral_ace.services.animation_data.v1.AnimationDataService'

export type StreamPart = NonNullable<MessageInitShape<typeof AnimationDataStreamSchema>['streamPart']>

/** A pipeline's view of the broker. */
export interface AnimationClient {
  /** Sends the parts as they come, until there are no more or the broker has answered. */
  push(parts: AsyncIterable<StreamPart>): Promise<Status>
  /** What matches, as long as there is any. An empty id matches all. */
  pull(
    ids: MessageInitShape<typeof AnimationIdsSchema>,
    signal: AbortSignal,
  ): AsyncIterable<AnimationDataStream>
  close(): void
}

/** The target is `host:port`; the token is that of the route, where it asks for one. */
export function createAnimationClient(target: string, token: string | undefined): AnimationClient {
  const client = createGrpcClient(target)
  const metadata = new Map(token === undefined ? [] : [['authorization', [`Bearer ${token}`]]])

  return {
    async push(parts) {
      const call = client.bidi(`/${animationService}/PushAnimationDataStream`, pushCodec, { metadata })
      const answer = firstOf(call.messages)
      let isAnswered = false
      const notice = () => {
        isAnswered = true
      }
      answer.then(notice, notice)
      for await (const streamPart of parts) {
        if (isAnswered) break
        await call.write(create(AnimationDataStreamSchema, { streamPart }))
      }
      call.end()
      return answer
    },
    pull(ids, signal) {
      const call = client.bidi(`/${animationService}/PullAnimationDataStream`, pullCodec, {
        metadata,
        signal,
      })
      void call.write(create(AnimationIdsSchema, ids))
      call.end()
      return call.messages
    },
    close: client.close,
  }
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

async function firstOf<Item>(items: AsyncIterable<Item>): Promise<Item> {
  for await (const item of items) return item
  throw new Error('the call ended without an answer')
}
