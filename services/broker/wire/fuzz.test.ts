import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { test } from 'node:test'
import fc from 'fast-check'
import { IdTooLong } from './animation-ids.ts'
import type { Message } from './message.ts'
import { MalformedMessage } from './protobuf-reader.ts'
import { readMessage } from './read-message.ts'
import { encodeData, encodeHeader } from './testing/encode-messages.ts'
import { encodedStream } from './testing/random-messages-under-test.ts'
import { readByGenerated, streamSchema, TooLoose, toStrict } from './testing/wire-under-test.ts'

const soak = process.env['SOAK'] === '1'
const runs = Number(process.env['FC_RUNS'] ?? (soak ? 10_000_000 : 20_000))
const seed = Number(process.env['FC_SEED'] ?? (soak ? Date.now() % 2 ** 31 : 1))

type Answer = Message | 'rejected' | 'id too long'

/** Reads a message. Errors other than the two expected ones are crashes, and thrown. */
function read(bytes: Uint8Array): Answer {
  try {
    return readMessage(bytes)
  } catch (error) {
    if (error instanceof IdTooLong) return 'id too long'
    if (!(error instanceof MalformedMessage)) throw error
    assert.ok(error.offset >= 0 && error.offset <= bytes.length, `${error.message} of ${bytes.length}`)
    return 'rejected'
  }
}

test('mutated messages are rejected, or read as by the generated decoder', {
  timeout: 7_200_000,
}, () => {
  const random = createRandom(seed)
  const messages = [...fc.sample(encodedStream, { seed, numRuns: 400 }), ...plainMessages()]
  const results = { accepted: 0, rejected: 0, looser: 0 }
  for (let run = 0; run < runs; run += 1) {
    const bytes = mutate(pick(messages, random), messages, random)
    try {
      results[compareDecoders(bytes, pick(telling, random))] += 1
    } catch (error) {
      throw new Error(`seed ${seed}, run ${run}: ${bytes.toString('hex')}`, { cause: error })
    }
  }
  for (const [kind, count] of Object.entries(results))
    assert.ok(count > runs / 100, `${kind}: ${count} of ${runs}`)
})

function compareDecoders(bytes: Buffer, neighbour: number): 'accepted' | 'rejected' | 'looser' {
  const answer = read(bytes)
  assert.deepEqual(read(surround(bytes, neighbour)), answer, `with the byte ${neighbour} around`)
  const strict = strictly(bytes)
  if (strict === 'rejected') {
    assert.equal(answer, 'rejected')
    return readByGenerated(bytes) === 'rejected' ? 'rejected' : 'looser'
  }
  assert.deepEqual(answer, readByGenerated(strict.clean))
  if (strict.differences.length === 0) assert.deepEqual(answer, readByGenerated(bytes))
  return answer === 'rejected' ? 'rejected' : 'accepted'
}

function strictly(bytes: Uint8Array) {
  try {
    return toStrict(streamSchema, bytes)
  } catch (error) {
    if (error instanceof TooLoose) return 'rejected'
    throw error
  }
}

/**
 * Puts other bytes before and behind the message. A reader that reads beyond the message then has another
 * result.
 */
function surround(bytes: Buffer, neighbour: number): Uint8Array {
  return Buffer.concat([Buffer.alloc(9, neighbour), bytes, Buffer.alloc(9, neighbour)]).subarray(9, -9)
}

type Random = (below: number) => number

function createRandom(start: number): Random {
  let state = start | 1
  return below => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % below
  }
}

function pick<Item>(items: readonly Item[], random: Random): Item {
  return items[random(items.length)] ?? assert.fail('nothing to pick from')
}

/** Bytes with a meaning: tags, lengths, groups, ends and continuations of varints. */
const telling = [0x00, 0x01, 0x04, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x12, 0x1a, 0x7f, 0x80, 0xff]

/** Makes one to four random changes. */
function mutate(original: Uint8Array, others: readonly Uint8Array[], random: Random): Buffer {
  let bytes: Buffer = Buffer.from(original)
  for (let changes = 1 + random(4); changes > 0; changes -= 1) bytes = change(bytes, others, random)
  return bytes
}

function change(bytes: Buffer, others: readonly Uint8Array[], random: Random): Buffer {
  const at = random(bytes.length + 1)
  const to = at + random(bytes.length - at + 1)
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)]
  switch (random(8)) {
    case 0:
      return Buffer.from(before)
    case 1:
      return Buffer.concat([before, Buffer.from([pick(telling, random)]), after])
    case 2:
      return Buffer.concat([before, bytes.subarray(to)])
    case 3:
      return Buffer.concat([bytes.subarray(0, to), after])
    case 4:
      return Buffer.concat([bytes, pick(others, random)])
    case 5:
      return Buffer.concat([before, pick(others, random), after])
    default: {
      const changed = Buffer.from(bytes)
      if (at < bytes.length)
        changed[at] = random(2) === 0 ? pick(telling, random) : (bytes[at] ?? 0) ^ (1 << random(8))
      return changed
    }
  }
}

/** Returns messages as real producers send them. */
function plainMessages(): Uint8Array[] {
  return [
    encodeHeader({
      animationIds: { requestId: 'r', streamId: 's', targetObjectId: 't' },
      audioHeader: { channelCount: 1, samplesPerSecond: 16000, bitsPerSample: 16 },
      skelAnimationHeader: { blendShapes: ['EyeBlinkLeft', 'JawOpen'], joints: ['neck'] },
    }),
    encodeData({
      skelAnimation: { blendShapeWeights: [{ timeCode: 1, values: [0.5, 0.25] }] },
      audio: { timeCode: 1, audioBuffer: new Uint8Array(32) },
    }),
  ]
}
