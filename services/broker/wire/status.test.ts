import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import {
  AnimationDataStreamSchema,
  StatusSchema,
} from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'
import fc from 'fast-check'
import { readMessage } from './read-message.ts'
import { animationStatusCodes, encodeStatus, encodeStatusMessage } from './status.ts'

const texts = fc.oneof(fc.string({ unit: 'grapheme' }), fc.string({ minLength: 120, maxLength: 20_000 }))

test('both forms of a status are equal to the generated encoding, and are read back', () => {
  fc.assert(
    fc.property(fc.nat(3), texts, (code, message) => {
      const status = { code: animationStatusCodes[code] ?? assert.fail(), message }
      const value = create(StatusSchema, { code, message })
      const part = create(AnimationDataStreamSchema, { streamPart: { case: 'status', value } })
      assert.deepEqual(new Uint8Array(encodeStatus(status)), toBinary(StatusSchema, value))
      const bytes = encodeStatusMessage(status)
      assert.deepEqual(new Uint8Array(bytes), toBinary(AnimationDataStreamSchema, part))
      assert.deepEqual(readMessage(bytes), { part: 'status', status })
    }),
  )
})
