import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import {
  AnimationDataSchema,
  AnimationDataStreamHeaderSchema,
  AnimationDataStreamSchema,
  AnimationIdsSchema,
} from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'
import type { AnimationIds } from '../animation-ids.ts'

/** Encodes messages of clients with the generated code, for trial programs, examples and tests. */

/** Encodes the request of a pull. */
export function encodeAnimationIds(ids: AnimationIds): Uint8Array {
  return toBinary(AnimationIdsSchema, create(AnimationIdsSchema, ids))
}

/** Encodes the first message of a push. */
export function encodeHeader(header: MessageInitShape<typeof AnimationDataStreamHeaderSchema>): Uint8Array {
  const value = create(AnimationDataStreamHeaderSchema, header)
  return toBinary(
    AnimationDataStreamSchema,
    create(AnimationDataStreamSchema, { streamPart: { case: 'animationDataStreamHeader', value } }),
  )
}

/** Encodes a message of a push after the header. */
export function encodeData(data: MessageInitShape<typeof AnimationDataSchema>): Uint8Array {
  const value = create(AnimationDataSchema, data)
  return toBinary(
    AnimationDataStreamSchema,
    create(AnimationDataStreamSchema, { streamPart: { case: 'animationData', value } }),
  )
}
