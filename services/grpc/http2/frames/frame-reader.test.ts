import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { FrameReader } from './frame-reader.ts'
import { ConnectionError, defaultMaxFrameBytes, frameBytes, preface } from './frames.ts'

/** Returns the frames of the chunks, as texts. */
function read(chunks: readonly Uint8Array[]): string[] {
  const frames: string[] = []
  const reader = new FrameReader((type, flags, streamId, buffer, start, end) => {
    frames.push(`${type} ${flags} ${streamId} ${buffer.subarray(start, end).toString('hex')}`)
  })
  for (const chunk of chunks) reader.read(Buffer.from(chunk))
  return frames
}

const stream = Buffer.concat([
  preface,
  frameBytes(4, 0, 0, Buffer.alloc(0)),
  frameBytes(1, 5, 1, Buffer.from('8286', 'hex')),
  frameBytes(0, 1, 2 ** 31 - 1, Buffer.from('body')),
  frameBytes(255, 255, 3, Buffer.alloc(0)),
])
const expected = ['4 0 0 ', '1 5 1 8286', '0 1 2147483647 626f6479', '255 255 3 ']

describe('frames', () => {
  test('every split of the bytes in three yields the same frames', () => {
    for (let first = 0; first <= stream.length; first += 1) {
      for (let second = first; second <= stream.length; second += 1) {
        const chunks = [stream.subarray(0, first), stream.subarray(first, second), stream.subarray(second)]
        assert.deepEqual(read(chunks), expected, `cut at ${first} and ${second}`)
      }
    }
  })

  test('byte by byte', () => {
    assert.deepEqual(read(Array.from(stream, byte => Uint8Array.of(byte))), expected)
  })

  test('any frames, split in any way', () => {
    const frame = fc.record({
      type: fc.integer({ min: 0, max: 255 }),
      flags: fc.integer({ min: 0, max: 255 }),
      streamId: fc.integer({ min: 0, max: 2 ** 31 - 1 }),
      payload: fc.uint8Array({ maxLength: 60 }),
    })
    fc.assert(
      fc.property(fc.array(frame), fc.array(fc.nat(80)), (frames, lengths) => {
        const parts = frames.map(each => frameBytes(each.type, each.flags, each.streamId, each.payload))
        let rest = Buffer.concat([preface, ...parts])
        const chunks: Buffer[] = []
        for (const length of lengths) {
          chunks.push(rest.subarray(0, length))
          rest = rest.subarray(length)
        }
        const wanted = frames.map(
          ({ type, flags, streamId, payload }) =>
            `${type} ${flags} ${streamId} ${Buffer.from(payload).toString('hex')}`,
        )
        assert.deepEqual(read([...chunks, rest]), wanted)
      }),
    )
  })

  test('a returned payload is not overwritten', () => {
    const views: Buffer[] = []
    const reader = new FrameReader((_type, _flags, _id, buffer, start, end) =>
      views.push(buffer.subarray(start, end)),
    )
    reader.read(preface)
    for (const text of ['one', 'two']) {
      const bytes = frameBytes(0, 0, 1, Buffer.from(text))
      reader.read(bytes.subarray(0, 10))
      reader.read(bytes.subarray(10))
    }
    assert.deepEqual(views.map(String), ['one', 'two'])
  })

  test('a frame that is too long and a wrong preface are errors before the rest arrives', () => {
    const head = frameBytes(0, 0, 1, Buffer.alloc(defaultMaxFrameBytes + 1)).subarray(0, 9)
    assert.throws(() => read([preface, head]), ConnectionError)
    assert.throws(() => read([Buffer.from('GET / HTTP/1.1\r\n')]), ConnectionError)
  })
})
