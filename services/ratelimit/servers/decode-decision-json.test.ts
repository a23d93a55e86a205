import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromJsonString } from '@bufbuild/protobuf'
import { RateLimitRequestSchema } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import fc from 'fast-check'
import { type DecisionRequest, maxParts, RequestError } from '../limiter/decision.ts'
import { decodeDecisionJson } from './decode-decision-json.ts'
import { toDecisionRequest } from './testing/open-limiter.ts'

const runs = Number(process.env['FC_RUNS'] ?? 1000)
const seed = Number(process.env['FC_SEED'] ?? 20_260_401)
const strictUtf8 = new TextDecoder('utf-8', { fatal: true })

/** Returns the result of the generated decoder; undefined for a body that it rejects. */
function generated(body: Uint8Array): DecisionRequest | undefined {
  try {
    return toDecisionRequest(fromJsonString(RateLimitRequestSchema, strictUtf8.decode(body)))
  } catch {
    return undefined
  }
}

/** Returns the result of the handwritten decoder, or its error. */
function ours(body: Buffer): DecisionRequest | string {
  try {
    return decodeDecisionJson(body)
  } catch (error) {
    assert.ok(error instanceof RequestError && error.invalid, String(error))
    return error.message
  }
}

function checkSame(body: Buffer): void {
  const read = ours(body)
  assert.deepEqual(typeof read === 'string' ? undefined : read, generated(body), body.toString())
}

/** Values that some field accepts, values that no field accepts, and invalid JSON. */
const values = String.raw`
  null | true | false | {} | [] | [null] | [[]] | nul | nulll | NaN | Infinity | 'a' | tru
  "" | "a" | "\u0061" | "\ud83d\ude00" | "\ud83d" | "\ude00\ud83d" | "\x" | "\u12g4" | "a\"b" | "\\" | "日" | "
  0 | 1 | -0 | -1 | 5 | 0.5 | 1.0 | 1e2 | 1E+2 | 1e-1 | 01 | +1 | .5 | 1. | 1e | - | --1 | 1e400 | 0x10 | 1 2
  4294967295 | 4294967296 | 2147483647 | 2147483648 | -2147483648 | -2147483649 | 9007199254740993 | 1e19
  18446744073709551615 | 18446744073709551616 | "18446744073709551615" | "18446744073709551616"
  "0" | "1" | "-0" | "-1" | " 1" | "1 " | "\u00a01" | " " | "1.0" | "0.5" | "1e2" | "0x10" | "0b1"
  "0o7" | "+1"
  "1_0" | "NaN" | "Infinity" | "4294967295" | "4294967296" | "00018446744073709551615" | "9007199254740993"
  "SECOND" | "UNKNOWN" | "WEEK" | "second" | "MIN\u0055TE" | "constructor" | "__proto__" | "toString"
`
  .trim()
  .split(/ \| |\n\s+/)

const fields = [
  ...[
    'domain',
    'descriptors',
    'hitsAddend',
    'hits_addend',
    'isNegativeHits',
    'entries',
    'limit',
    'key',
    'value',
    'unit',
  ],
  ...[
    'requestsPerUnit',
    'requests_per_unit',
    'HitsAddend',
    'hits-addend',
    '__proto__',
    'constructor',
    '',
    '[x]',
  ],
]

/** `·` is replaced by the value. */
const places = [
  '·',
  '{"domain":·}',
  '{"descriptors":·}',
  '{"hitsAddend":·}',
  '{"hits_addend":·}',
  '{"descriptors":[·]}',
  '{"descriptors":[{"entries":·}]}',
  '{"descriptors":[{"entries":[·]}]}',
  '{"descriptors":[{"entries":[{"key":·}]}]}',
  '{"descriptors":[{"entries":[{"value":·}]}]}',
  '{"descriptors":[{"hitsAddend":·}]}',
  '{"descriptors":[{"isNegativeHits":·}]}',
  '{"descriptors":[{"limit":·}]}',
  '{"descriptors":[{"limit":{"requestsPerUnit":·}}]}',
  '{"descriptors":[{"limit":{"unit":·}}]}',
]

test('every value in every position is decoded like by the generated decoder', () => {
  for (const place of places) {
    for (const value of values) checkSame(Buffer.from(place.replace('·', () => value)))
  }
})

test('every field is known only in its object, in both spellings', () => {
  for (const place of places) {
    for (const field of fields) {
      for (const value of ['null', '"1"', '[]', '{}']) {
        checkSame(Buffer.from(place.replace('·', () => `{"${field}":${value}}`)))
      }
    }
  }
})

/** Spellings of a text, valid and invalid. */
const texts = [
  ' \t\r\n{ "domain" : "d" , "descriptors" : [ { } , { } ] } \n',
  '\u00a0{}',
  '{}\u2028',
  '\ufeff{"domain":"d"}',
  '\ufeff\ufeff{}',
  '{"domain":"\ufeff"}',
  '{"dom\\u0061in":"d"}',
  '{"dom\\u0061in":"d","domain":"e"}',
  '{"domain":"日本 💶 é","descriptors":[{"entries":[{"key":"é","value":"\\u00e9"}]}]}',
  '{"domain":"d","domain":"d"}',
  '{"domain":null,"domain":null}',
  '{"hitsAddend":1,"hits_addend":1}',
  '{"descriptors":null,"descriptors":[]}',
  '{"descriptors":[{"limit":null,"limit":null}]}',
  '{"descriptors":[{"limit":{"unit":null,"unit":1}}]}',
  '{"descriptors":[{"limit":{"unit":99,"unit":1}}]}',
  '{"descriptors":[{"hitsAddend":null,"hits_addend":null}]}',
  '{"descriptors":[{"hitsAddend":"3","is_negative_hits":true}]}',
  '{"descriptors":[{"isNegativeHits":true,"is_negative_hits":true}]}',
  '{"descriptors":[{"isNegativeHits":truefalse}]}',
  '{"descriptors":[{"entries":null},{"entries":null}]}',
  '{"domain":"d"',
  '{"domain":"d",}',
  '{,"domain":"d"}',
  '{"domain" "d"}',
  '{domain:"d"}',
  "{'domain':'d'}",
  '{"domain":"d"}}',
  '{"domain":"d"} x',
  '{"domain":"a\tb"}',
  '{"domain":"a\nb"}',
  '{"domain":"a\\',
  '{"domain":"a\\"',
  '{"domain":"\x7f"}',
  '{"descriptors":[,]}',
  '{"descriptors":[{},]}',
  '{"descriptors":[{}{}]}',
  '{"descriptors":[{}',
  '{}{}',
  '{"domain":"d"//}',
  '',
  ' ',
]

test('every spelling is decoded like by the generated decoder', () => {
  for (const text of texts) checkSame(Buffer.from(text))
  for (const octets of [
    '{"domain":"\xff"}',
    '{"domain":"\xc3"}',
    '\xff{}',
    '{"domain":"\xed\xa0\x80"}',
    '\xef\xbb{}',
  ]) {
    checkSame(Buffer.from(octets, 'latin1'))
  }
})

const rejected: readonly [string, string][] = [
  ['', 'the request: the end of the text was found, an object is allowed'],
  ['null', 'the request: null was found, an object is allowed'],
  ['{"domain":5}', 'domain: a number was found, a string is allowed'],
  ['{"domain":"\\ud800"}', 'domain: half of a surrogate pair was found, whole characters is allowed'],
  ['{"Domain":""}', 'Domain: an unknown field was found, domain, descriptors or hitsAddend is allowed'],
  ['{"domain":"","domain":""}', 'domain: a second value was found, one is allowed'],
  ['{"hits_addend":-1}', 'hitsAddend: -1 was found, a whole number from 0 to 4294967295 is allowed'],
  [
    '{"descriptors":[{},{"hitsAddend":"\\u001b[2J"}]}',
    'descriptors[1].hitsAddend: the string "\\u001b[2J" was found, a whole number from 0 to 18446744073709551615 is allowed',
  ],
  [
    '{"descriptors":[{"entries":[{},{"key":{}}]}]}',
    'descriptors[0].entries[1].key: an object was found, a string is allowed',
  ],
  [
    '{"descriptors":[{"limit":{"unit":"WEEK"}}]}',
    'descriptors[0].limit.unit: the string "WEEK" was found, SECOND, MINUTE, HOUR, DAY, MONTH or YEAR is allowed',
  ],
  [
    '{"descriptors":[{} {}]}',
    'the request is not JSON: after descriptors[0], at byte 19, a comma or ] is missing',
  ],
  ['{"é\\u001b":1}', '"?\\u001b": an unknown field was found, domain, descriptors or hitsAddend is allowed'],
]

test('an error names the field, the value and the allowed values', () => {
  for (const [text, expected] of rejected) assert.equal(ours(Buffer.from(text)), expected)
  assert.equal(ours(Buffer.from([0xff])), 'the request is not UTF-8')
})

test('descriptors and entries are read up to the limit', () => {
  const request = (descriptors: number, entries: number) =>
    Buffer.from(
      `{"descriptors":[${'{},'.repeat(descriptors - 1)}{"entries":[${Array(entries).fill('{}')}]}]}`,
    )
  for (const [descriptors, entries] of [
    [maxParts, 0],
    [1, maxParts - 1],
    [maxParts - 5, 5],
  ] as const) {
    checkSame(request(descriptors, entries))
    const tooMany = `descriptors: at most ${maxParts} and their entries are allowed`
    assert.equal(ours(request(descriptors, entries + 1)), tooMany)
    if (entries > 0) assert.equal(ours(request(descriptors + 1, entries)), tooMany)
  }
})

/** A field's name, sometimes with escapes, with a value of that kind. */
const member = (names: readonly string[], value: fc.Arbitrary<string>) =>
  fc
    .tuple(fc.constantFrom(...names), value, gap)
    .map(([name, text, white]) => `"${name}"${white}:${white}${text}`)
const gap = fc.constantFrom('', '', '', ' ', '\n\t ')
const object = (...members: fc.Arbitrary<string>[]) =>
  fc
    .tuple(gap, fc.uniqueArray(fc.oneof(...members), { maxLength: 4, selector: text => text.slice(1, 4) }))
    .map(([white, texts]) => `{${white}${texts.join(`${white},`)}${white}}`)
const list = (item: fc.Arbitrary<string>) => fc.array(item, { maxLength: 4 }).map(items => `[${items}]`)
const orAny = (usual: fc.Arbitrary<string>) =>
  fc.oneof({ weight: 30, arbitrary: usual }, { weight: 1, arbitrary: fc.constantFrom(...values) })

const string = orAny(fc.string({ unit: 'grapheme' }).map(text => JSON.stringify(text)))
const count = orAny(fc.oneof(fc.nat(), fc.bigInt({ min: 0n, max: 2n ** 65n })).map(value => `"${value}"`))
const uint32 = orAny(fc.oneof(fc.nat(), fc.integer(), fc.double()).map(value => JSON.stringify(value)))
const unit = orAny(fc.oneof(fc.constantFrom('"SECOND"', '"YEAR"', '3'), fc.integer().map(String)))
const entry = object(member(['key', 'k\\u0065y'], string), member(['value'], string))
const limit = object(member(['requestsPerUnit', 'requests_per_unit'], uint32), member(['unit'], unit))
const descriptor = object(
  member(['entries'], orAny(list(entry))),
  member(['limit'], orAny(limit)),
  member(['hitsAddend', 'hits_addend'], count),
  member(['isNegativeHits', 'is_negative_hits'], orAny(fc.constantFrom('true', 'false', 'null'))),
)
const request = object(
  member(['domain'], string),
  member(['descriptors'], orAny(list(orAny(descriptor)))),
  member(['hitsAddend', 'hits_addend'], uint32),
)

test('valid requests are decoded like by the generated decoder', () => {
  fc.assert(
    fc.property(request, text => checkSame(Buffer.from(text))),
    { numRuns: runs, seed },
  )
})

test('mutated requests are decoded like by the generated decoder', () => {
  const change = fc.record({ at: fc.nat(), removed: fc.nat(3), added: fc.uint8Array({ maxLength: 2 }) })
  fc.assert(
    fc.property(request, fc.array(change, { minLength: 1, maxLength: 2 }), (text, changes) => {
      let bytes = Buffer.from(text)
      for (const { at, removed, added } of changes) {
        const start = at % (bytes.length + 1)
        bytes = Buffer.concat([bytes.subarray(0, start), added, bytes.subarray(start + removed)])
      }
      checkSame(bytes)
    }),
    { numRuns: runs, seed },
  )
})
