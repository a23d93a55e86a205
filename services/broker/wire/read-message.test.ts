import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { test } from 'node:test'
import { create, fromBinary } from '@bufbuild/protobuf'
import { AnimationIdsSchema } from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'
import fc from 'fast-check'
import { IdTooLong, maxIdCharacters } from './animation-ids.ts'
import { MalformedMessage } from './protobuf-reader.ts'
import { readAnimationIds } from './read-header.ts'
import { readMessage } from './read-message.ts'
import { encodeAnimationIds, encodeData, encodeHeader } from './testing/encode-messages.ts'
import { encodedStream } from './testing/random-messages-under-test.ts'
import { readByGenerated } from './testing/wire-under-test.ts'

const numRuns = Number(process.env['FC_RUNS'] ?? 2000)

/** Reads a message, with the result in the form of `readByGenerated`. */
function read(bytes: Uint8Array) {
  try {
    return readMessage(bytes)
  } catch (error) {
    if (error instanceof IdTooLong) return 'id too long'
    if (error instanceof MalformedMessage) return 'rejected'
    throw error
  }
}

test('a message is read as by the generated decoder', () => {
  fc.assert(
    fc.property(encodedStream, bytes => assert.deepEqual(read(bytes), readByGenerated(bytes))),
    { numRuns },
  )
})

test('a header is read', () => {
  const bytes = encodeHeader({
    animationIds: { requestId: 'r-1', streamId: 's-1', targetObjectId: 'claire' },
    sourceServiceId: 'a2f',
    audioHeader: { channelCount: 1, samplesPerSecond: 16000, bitsPerSample: 16 },
    skelAnimationHeader: { blendShapes: ['EyeBlinkLeft', 'JawOpen'], joints: ['neck'] },
    startTimeCodeSinceEpoch: 1.75e9,
    metadata: { session: { typeUrl: 'type.googleapis.com/google.protobuf.StringValue' } },
  })
  assert.deepEqual(readMessage(bytes), {
    part: 'header',
    ids: { requestId: 'r-1', streamId: 's-1', targetObjectId: 'claire' },
    sourceServiceId: 'a2f',
    audio: { format: 0, channelCount: 1, samplesPerSecond: 16000, bitsPerSample: 16 },
    blendShapes: 2,
    joints: 1,
    startTimeCode: 1.75e9,
  })
})

test('data are read, with arrays of different lengths and time codes that do not increase', () => {
  const bytes = encodeData({
    skelAnimation: {
      blendShapeWeights: [
        { timeCode: 1, values: [0.5, 0.5] },
        { timeCode: 1, values: [0.5] },
        { timeCode: 2, values: [0.5, 0.5, 0.5] },
      ],
      rotations: [{ timeCode: 3, values: [{ real: 1 }, {}] }],
    },
    audio: { timeCode: 1.5, audioBuffer: new Uint8Array(1066) },
    camera: { position: [{ timeCode: 4 }], focalLength: [{ timeCode: -1 }, { timeCode: NaN }] },
  })
  assert.deepEqual(readMessage(bytes), {
    part: 'data',
    skelAnimation: {
      earliest: 1,
      latest: 3,
      weights: {
        lastTimeCode: 2,
        disorder: { found: 1, previous: 1 },
        fewestValues: 1,
        mostValues: 3,
      },
      translations: undefined,
      rotations: {
        lastTimeCode: 3,
        disorder: undefined,
        fewestValues: 2,
        mostValues: 2,
      },
      scales: undefined,
    },
    audio: { timeCode: 1.5, bytes: 1066 },
    camera: { earliest: -1, latest: 4 },
  })
})

/** Each line has the bytes of a message in hex, an arrow, and the result. */
const readings = `
                           -> none
  1a 00                    -> SUCCESS ""
  1a 02 08 02              -> WARNING ""
  1a 04 08 01 08 03        -> ERROR ""
  1a 02 08 04              -> ERROR ""
  1a 0b 08 ff ff ff ff ff ff ff ff ff 01 -> ERROR ""
  1a 03 12 01 61           -> SUCCESS "a"
  1a 02 08 02 1a 03 12 01 61 -> WARNING "a"
  1a 02 08 02 12 00 1a 00  -> SUCCESS ""
  1a 02 08 02 12 00        -> data
  20 01 1a 02 08 02 25 00 00 00 00 -> WARNING ""
  18 01                    -> none
  1a 02 10 05              -> SUCCESS ""
  12 04 22 02 7a 7a        -> data
  0a 05 32 03 0a 01 ff     -> at byte 6 a string is not UTF-8
  0a 06 32 04 0a 02 6b 31  -> header
  0a 09 32 07 0a 02 6b 31 12 01 ff -> header
  0b                       -> at byte 1 field 1 has the wire type 3
  0c                       -> at byte 1 field 1 has the wire type 4
  3b 3c                    -> at byte 1 field 7 has the wire type 3
  0e                       -> at byte 1 field 1 has the wire type 6
  00                       -> at byte 0 a field has the number 0
  05 00 00 00 00           -> at byte 0 a field has the number 0
  1a                       -> at byte 1 a varint is cut off
  1a 01                    -> at byte 1 a length of 1 is found, 0 bytes are left
  1a 02 08 82 01           -> at byte 3 a varint is cut off
  1a 03 12 02 61           -> at byte 3 a length of 2 is found, 1 bytes are left
  1a 03 12 01 ff           -> at byte 4 a string is not UTF-8
  1a 05 12 03 ed a0 80     -> at byte 4 a string is not UTF-8
  12 07 12 05 09 00 00 00 00 -> at byte 5 a number of 8 bytes is cut off
  12 07 0a 05 0a 03 12 01 00 -> at byte 7 floats of 4 bytes have 1 bytes together
  20 80 80 80 80 80 80 80 80 80 80 00 -> at byte 1 a varint has more than 10 bytes
  9a 80 80 80 10           -> at byte 0 a tag has more than 32 bits
  9a 80 80 80 80 00        -> at byte 0 a tag has more than 32 bits
  1a 80 80 80 80 10        -> at byte 1 a length has more than 32 bits
  1a ff ff ff ff 0f        -> at byte 1 a length of 4294967295 is found, 0 bytes are left
`

for (const line of readings.split('\n').filter(text => text.includes('->'))) {
  const [hex = '', expected] = line.split('->').map(part => part.trim())
  test(`the bytes ${hex} are read as: ${expected}`, () => {
    assert.equal(describe(Buffer.from(hex.replaceAll(' ', ''), 'hex')), expected)
  })
}

function describe(bytes: Uint8Array): string {
  try {
    const message = readMessage(bytes)
    if (message.part === 'status') return `${message.status.code} "${message.status.message}"`
    return message.part
  } catch (error) {
    if (!(error instanceof MalformedMessage)) throw error
    return error.message.replace('malformed message: ', '')
  }
}

test('an offset is the position of the error from the start of the message', () => {
  const within = Buffer.from('ffff1a0312', 'hex').subarray(2)
  assert.throws(() => readMessage(within), { name: 'MalformedMessage', offset: 1 })
})

test('ids have 100 characters at most, of any size', () => {
  for (const field of ['requestId', 'streamId', 'targetObjectId'] as const) {
    const ids = { requestId: 'r', streamId: 's', targetObjectId: 't' }
    const longest = { ...ids, [field]: '🎭'.repeat(maxIdCharacters) }
    assert.deepEqual(readAnimationIds(encodeAnimationIds(longest)), longest)
    const tooLong = { ...ids, [field]: 'x'.repeat(maxIdCharacters + 1) }
    assert.throws(() => readAnimationIds(encodeAnimationIds(tooLong)), IdTooLong)
    assert.throws(() => readMessage(encodeHeader({ animationIds: tooLong })), IdTooLong)
  }
  assert.throws(
    () => readMessage(encodeHeader({ sourceServiceId: 'x'.repeat(140) })),
    new IdTooLong('source_service_id', 140),
  )
})

test('ids of a pull are read as by the generated decoder', () => {
  const id = fc.string({ unit: 'grapheme', maxLength: 20 })
  const anyIds = fc.record({ requestId: id, streamId: id, targetObjectId: id }, { noNullPrototype: true })
  fc.assert(
    fc.property(anyIds, ids => {
      const bytes = encodeAnimationIds(ids)
      assert.deepEqual(readAnimationIds(bytes), ids)
      assert.deepEqual(fromBinary(AnimationIdsSchema, bytes), create(AnimationIdsSchema, ids))
    }),
  )
  assert.throws(() => readAnimationIds(Buffer.from('0a02', 'hex')), MalformedMessage)
})
