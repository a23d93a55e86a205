import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { test } from 'node:test'
import { makeSpeech } from './speech.ts'
import { formatWav, parseWav } from './wav.ts'

test('parsing a formatted WAV file returns the same sound', () => {
  const sound = makeSpeech(0.1, 44100)
  assert.deepEqual(parseWav(formatWav(sound)), sound)
})

test('the parser skips chunks that it does not need, also those of odd length', () => {
  const file = formatWav(makeSpeech(0.1))
  const list = Buffer.from('LIST\x03\0\0\0abc\0', 'latin1')
  const longer = Buffer.concat([file.subarray(0, 12), list, file.subarray(12)])
  assert.deepEqual(parseWav(longer), parseWav(file))
})

test('the parser rejects files that it cannot play', () => {
  const file = formatWav(makeSpeech(0.1))
  const withBits = Buffer.from(file)
  withBits.writeUInt16LE(24, 34)
  assert.throws(() => parseWav(withBits), /expected PCM \(encoding 1\) of 16 bits, got encoding 1 of 24 bits/)
  assert.throws(() => parseWav(file.subarray(0, 40)), /no chunk "data"/)
  assert.throws(() => parseWav(Buffer.from('ID3')), /expected a WAV file/)
})
