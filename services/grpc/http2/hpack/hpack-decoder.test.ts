import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { ConnectionError } from '../frames/frames.ts'
import { HeaderBlocks } from '../frames/header-blocks.ts'
import { type HeaderBlock, HpackDecoder } from './hpack-decoder.ts'
import { encodeHeaderBlock } from './hpack-encoder.ts'

const bytesOf = (hex: string) => Buffer.from(hex.replaceAll(/\s/g, ''), 'hex')

function decode(decoder: HpackDecoder, block: Buffer): string {
  const { fields } = decoder.decode(block, 0, block.length)
  const lines: string[] = []
  for (let index = 0; index < fields.length; index += 2) lines.push(`${fields[index]}: ${fields[index + 1]}`)
  return lines.join('\n')
}

/** The examples of RFC 7541 (appendix C): the blocks of one connection in order, and their fields. */
const vectors: readonly [name: string, blocks: readonly [hex: string, fields: string][]][] = [
  [
    'C.2 single fields',
    [
      ['400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572', 'custom-key: custom-header'],
      ['040c 2f73 616d 706c 652f 7061 7468', ':path: /sample/path'],
      ['1008 7061 7373 776f 7264 0673 6563 7265 74', 'password: secret'],
      ['82', ':method: GET'],
    ],
  ],
  [
    'C.3 requests without Huffman coding',
    [
      [
        '8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d',
        ':method: GET\n:scheme: http\n:path: /\n:authority: www.example.com',
      ],
      [
        '8286 84be 5808 6e6f 2d63 6163 6865',
        ':method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache',
      ],
      [
        '8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65',
        ':method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value',
      ],
    ],
  ],
  [
    'C.4 requests with Huffman coding',
    [
      [
        '8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff',
        ':method: GET\n:scheme: http\n:path: /\n:authority: www.example.com',
      ],
      [
        '8286 84be 5886 a8eb 1064 9cbf',
        ':method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache',
      ],
      [
        '8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf',
        ':method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value',
      ],
    ],
  ],
  [
    'C.6 responses with Huffman coding, in a table of 256 bytes that evicts',
    [
      [
        `3fe101 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6
         2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3`,
        `:status: 302\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT
location: https://www.example.com`,
      ],
      [
        '4883 640e ffc1 c0bf',
        `:status: 307\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT
location: https://www.example.com`,
      ],
      [
        `88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2
         e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07`,
        `:status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT
location: https://www.example.com\ncontent-encoding: gzip
set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1`,
      ],
    ],
  ],
]

describe('HPACK', () => {
  for (const [name, blocks] of vectors) {
    test(`RFC 7541, ${name}`, () => {
      const decoder = new HpackDecoder(4096)
      for (const [hex, fields] of blocks) assert.equal(decode(decoder, bytesOf(hex)), fields)
    })
  }

  for (const [hex, why] of [
    ['80', 'index 0'],
    ['be', 'an index behind the table'],
    ['ffff', 'an integer that ends too early'],
    ['ffffffffff0f', 'an integer that is too long'],
    ['0003 6162', 'a string that ends too early'],
    ['8220', 'a change of the table size after a field'],
    ['3fe2 1f', 'a table of 4097 bytes'],
    ['0085 f2b2 4a84 ff84 4950 9fff', 'padding of more than seven bits'],
    ['0085 f2b2 4a87 ffff fffd 25 4284', 'the end-of-string symbol'],
    ['0083 f8ff ff00', 'padding that is a whole byte'],
    ['0081 18 00', 'padding of zeros'],
  ] as const) {
    test(`${why} is a COMPRESSION_ERROR`, () => {
      assert.throws(() => decode(new HpackDecoder(4096), bytesOf(hex)), ConnectionError)
    })
  }

  test('encoded fields are decoded to the same fields, and do not change the table', () => {
    const text = fc.string({ unit: fc.integer({ min: 0, max: 255 }).map(code => String.fromCharCode(code)) })
    const fields = fc.array(fc.tuple(fc.oneof(text, fc.constantFrom(':status', 'te', 'content-type')), text))
    fc.assert(
      fc.property(fields, sent => {
        const block = encodeHeaderBlock(sent)
        const received = new HpackDecoder(1e6).decode(block, 0, block.length)
        assert.deepEqual(received, { fields: sent.flat(), truncated: false, repeatable: true })
      }),
    )
  })

  test('any bytes are a header block or a COMPRESSION_ERROR', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 40 })), blocks => {
        const decoder = new HpackDecoder(4096)
        for (const bytes of blocks) {
          try {
            decoder.decode(Buffer.from(bytes), 0, bytes.length)
          } catch (error) {
            assert.ok(error instanceof ConnectionError)
          }
        }
      }),
      { numRuns: 2000 },
    )
  })

  test('a few bytes that refer to a long entry many times give only a truncated list', () => {
    const decoder = new HpackDecoder(10_000)
    const long = Buffer.concat([bytesOf('4001 61 7fa1 1e'), Buffer.alloc(4000, 'x')])
    decoder.decode(long, 0, long.length)
    const bomb = Buffer.alloc(10_000, 0xbe)
    const { fields, truncated } = decoder.decode(bomb, 0, bomb.length)
    assert.ok(truncated)
    assert.equal(fields.length, 4)
  })

  test('beyond the limit of the list, the table and the errors are those of a decoder without a limit', () => {
    const part = fc.oneof(
      {
        weight: 4,
        arbitrary: fc.constantFrom('82', 'be', 'bf', 'c5', '4101 61', '4001 6101 62', '0001 6101 62'),
      },
      { weight: 2, arbitrary: fc.constantFrom('0081 1f81 1f', '4081 1f00', '8286', 'ff00', 'ff20', '7e00') },
      { weight: 1, arbitrary: fc.constantFrom('80', 'fe', '0081 0081 00', '20', '3f11') },
    )
    const block = fc.array(part, { maxLength: 20 }).map(parts => bytesOf(parts.join('')))
    fc.assert(
      fc.property(fc.array(block, { maxLength: 8 }), blocks => {
        const [limited, unlimited] = [new HpackDecoder(60), new HpackDecoder(1e9)]
        for (const bytes of blocks) {
          const [found, expected] = [limited, unlimited].map(decoder => {
            try {
              return decoder.decode(bytes, 0, bytes.length)
            } catch (error) {
              return (error as Error).message
            }
          })
          if (typeof expected !== 'object' || typeof found !== 'object') return assert.equal(found, expected)
          assert.equal(found.repeatable, expected.repeatable)
          assert.deepEqual(found.fields, expected.fields.slice(0, found.fields.length))
          assert.equal(found.truncated, found.fields.length < expected.fields.length)
        }
      }),
      { numRuns: 3000 },
    )
  })
})

describe('header blocks that are cached by their bytes', () => {
  function createBlocks() {
    let parsed = 0
    const truncated: number[] = []
    const parse = ({ fields }: HeaderBlock) => {
      parsed += 1
      return fields.join(' ')
    }
    const blocks = new HeaderBlocks(4096, parse, bytes => truncated.push(bytes))
    return {
      meaning: (hex: string) => blocks.meaning(bytesOf(hex), 0, bytesOf(hex).length),
      parsed: () => parsed,
      truncated,
    }
  }

  test('a block that does not change the table is parsed once', () => {
    const { meaning, parsed } = createBlocks()
    for (let time = 0; time < 3; time += 1) assert.equal(meaning('8286'), ':method GET :scheme http')
    assert.equal(parsed(), 1)
  })

  test('each block beyond the limit of the list is reported, also a repeated one', () => {
    const { meaning, truncated } = createBlocks()
    meaning(`4001 61 7fa1 1e ${'78'.repeat(4000)}`)
    for (let time = 0; time < 3; time += 1) meaning('bebe')
    assert.deepEqual(truncated, [2, 2, 2])
  })

  test('a block that inserts an entry is decoded each time', () => {
    const { meaning } = createBlocks()
    meaning('4001 6101 31')
    meaning('4001 6201 32')
    assert.equal(meaning('4001 6101 31'), 'a 1')
    assert.equal(meaning('bebfc0'), 'a 1 b 2 a 1')
  })

  test('after a change of the table the same bytes have their new meaning', () => {
    const { meaning } = createBlocks()
    meaning('4001 6101 31')
    assert.equal(meaning('be'), 'a 1')
    assert.equal(meaning('be'), 'a 1')
    meaning('4001 6201 32')
    assert.equal(meaning('be'), 'b 2')
    meaning('20')
    assert.throws(() => meaning('be'), ConnectionError)
  })

  test('after any blocks, the result is that of a decoder without a cache', () => {
    const blocks = fc.constantFrom('82', '8286', '4001 6101 31', '4001 6201 32', 'be', 'bebf', '86', '8287')
    fc.assert(
      fc.property(fc.array(blocks, { maxLength: 40 }), sequence => {
        const { meaning } = createBlocks()
        const decoder = new HpackDecoder(4096)
        for (const hex of sequence) {
          let expected: string | undefined
          try {
            expected = decoder.decode(bytesOf(hex), 0, bytesOf(hex).length).fields.join(' ')
          } catch {
            assert.throws(() => meaning(hex), ConnectionError)
            return
          }
          assert.equal(meaning(hex), expected)
        }
      }),
      { numRuns: 500 },
    )
  })
})
