import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { splitLines } from './lines.ts'

function split(maxLength: number, chunks: readonly Buffer[]): readonly string[] {
  const lines: string[] = []
  const splitter = splitLines(maxLength, text => lines.push(text))
  for (const chunk of chunks) splitter.write(chunk)
  splitter.end()
  return lines
}

const cases: readonly (readonly [text: string, lines: readonly string[]])[] = [
  ['', []],
  ['one\ntwo\n', ['one', 'two']],
  ['one\r\n\r\ntwo', ['one', '', 'two']],
  ['12345678', ['12345678']],
  ['123456789\nnext', ['12345678 … (1 more characters)', 'next']],
  [`${'x'.repeat(1_000)}`, ['xxxxxxxx … (992 more characters)']],
]

test('a line of more than 8 characters is cut, and ends with the number of the others', () => {
  for (const [text, lines] of cases) assert.deepEqual(split(8, [Buffer.from(text)]), lines)
})

test('the lines are the same wherever the chunks of the output end', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.array(fc.nat(20)), (text, lengths) => {
      const bytes = Buffer.from(`${text}\n${text}`)
      const chunks: Buffer[] = []
      let at = 0
      for (const length of lengths) {
        chunks.push(bytes.subarray(at, at + length))
        at += length
      }
      assert.deepEqual(split(8, [...chunks, bytes.subarray(at)]), split(8, [bytes]))
    }),
  )
})
