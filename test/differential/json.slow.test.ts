import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import { missingProgram } from '../support/require-server.ts'
import { expectedAnswer } from './differences.ts'
import { type Answer, type Pair, startPair } from './pair.ts'
import { missingReference } from './start-reference.ts'

const configuration = `
domain: d
descriptors:
  - {key: n, rate_limit: {unit: year, requests_per_unit: 9, name: x}}
  - {key: once, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: most, rate_limit: {unit: year, requests_per_unit: 4294967295}}
  - {key: free, rate_limit: {unlimited: true}}
`

/** Each body has a different value, so that their counters are independent. */
let bodies = 0
const value = () => `v${bodies++}`
const entry = (key: string, text = value()) => `{"entries":[{"key":"${key}","value":"${text}"}]}`
const list = (...descriptors: string[]) => `{"domain":"d","descriptors":[${descriptors}]}`
const hits = (text: string) => list(entry('n')).replace(/}$/, `,"hitsAddend":${text}}`)
const ownHits = (text: string) => list(entry('n').replace(/}$/, `,"hitsAddend":${text}}`))
const ownLimit = (text: string) => list(entry('n').replace(/}$/, `,"limit":${text}}`))
const more = (text: string) => list(entry('none')).replace(/}$/, `,${text}}`)
const bytes = (...parts: (string | number)[]) =>
  new Uint8Array(Buffer.concat(parts.map(part => Buffer.from(typeof part === 'string' ? part : [part]))))
const deep = (text: string, end: string, depth: number) => text.repeat(depth) + end.repeat(depth)

type Body = string | Uint8Array<ArrayBuffer>

/** Bodies with the same status and body from both, apart from Go's white space. */
const same: Readonly<Record<number, Readonly<Record<string, readonly Body[]>>>> = {
  200: {
    limits: [
      list(entry('n')),
      list(entry('free')),
      list(entry('free'), entry('none')),
      list(entry('once', 'a')),
    ],
    'white space': [`\t\n ${list(entry('none'))}\r\n `],
    'hits of the request': [
      '0',
      '1',
      '2',
      '"3"',
      '3.0',
      '3e0',
      '30e-1',
      '"3e0"',
      '"3.0"',
      '-0',
      '"-0"',
      'null',
    ].map(hits),
    'hits of a descriptor': ['0', '1', '2', '"3"', '3.0', '3e0', '-0', 'null'].map(ownHits),
    'snake case': [
      hits('2').replace('hitsAddend', 'hits_addend'),
      ownHits('2').replace('hitsAddend', 'hits_addend'),
    ],
    'a limit of the request': [
      '{"requestsPerUnit":2,"unit":"DAY"}',
      '{"requests_per_unit":2,"unit":"DAY"}',
      '{"requestsPerUnit":2,"unit":4}',
      '{"requestsPerUnit":2,"unit":4.0}',
      'null',
    ].map(ownLimit),
    'empty descriptors': [list('{}'), list('{"entries":[{}]}'), list('{"entries":null}')],
    'null for a text': [list('{"entries":[{"key":"n","value":null}]}')],
    escapes: ['\\ud83d\\ude00', '\\u0000', '\\n', '\\/', '\x7f', '\u2028'].map(text =>
      list(entry('n', text)),
    ),
    many: [
      list(...Array.from({ length: 1000 }, () => entry('none'))),
      list(entry('n', 'x'.repeat(1_000_000))),
    ],
  },
  400: {
    'no object': [
      '',
      ' ',
      '{}',
      'null',
      '[]',
      '"x"',
      '1',
      'true',
      '{',
      '{}}',
      '{} {}',
      'x'.repeat(2_000_000),
    ],
    'an empty request': [
      '{"domain":"d"}',
      '{"domain":"","descriptors":[]}',
      '{"domain":null,"descriptors":null}',
    ],
    'invalid JSON': [
      `//c\n${list(entry('none'))}`,
      list(entry('none')).replace('}', ',}'),
      list(entry('none')).replaceAll('"', "'"),
    ],
    'a field twice': [
      `{"domain":"d",${list(entry('none')).slice(1)}`,
      list('{"entries":[{"key":"n","key":"k","value":"x"}]}'),
      more('"hitsAddend":1,"hits_addend":2'),
    ],
    'unknown fields': [
      more('"what":1'),
      more('"constructor":{}'),
      more('"__proto__":{"domain":"e"}'),
      more('"@type":"x"'),
      more('"[envoy.x]":1'),
      list('{"entries":[{"key":"k","value":"v","x":1}]}'),
    ],
    'wrong types': [
      ...['{}', '"x"', '[null]', '[[]]', '[{"entries":{}}]', '[{"entries":[null]}]'].map(
        descriptors => `{"domain":"d","descriptors":${descriptors}}`,
      ),
      '{"domain":5,"descriptors":[{}]}',
      '{"domain":true,"descriptors":[{}]}',
      list('{"entries":[{"key":"n","value":5}]}'),
    ],
    'wrong hits': [
      ...[
        '-1',
        '3.5',
        '4294967296',
        '1e400',
        'true',
        '"x"',
        '""',
        '" 3"',
        '[]',
        '{}',
        'NaN',
        '"NaN"',
        '01',
        '.5',
        '+1',
      ],
    ].map(hits),
    'wrong hits of a descriptor': [
      ...[
        '-1',
        '3.5',
        '"18446744073709551616"',
        '18446744073709551616',
        '1e400',
        'true',
        '{"value":3}',
        '{}',
      ],
    ].map(ownHits),
    'wrong limits': [
      ...[
        '{"unit":"day"}',
        '{"unit":"4"}',
        '{"requestsPerUnit":-2,"unit":"DAY"}',
        '{"unit":"WEEK"}',
        '[]',
        '"x"',
      ],
    ].map(ownLimit),
    'halves of characters': ['\\ud800', '\\udc00x', '\\u00', '\\x', '\n', '\t'].map(text =>
      list(entry('n', text)),
    ),
    'invalid UTF-8': [
      bytes('{"domain":"d', 0xff, '","descriptors":[{}]}'),
      bytes('{"domain":"d', 0xed, 0xa0, 0x80, '","descriptors":[{}]}'),
      bytes('{"domain":"d', 0xc0, 0x80, '","descriptors":[{}]}'),
      new Uint8Array(Buffer.from(list(entry('none')), 'utf16le')),
    ],
    'deep nesting': [
      deep('[', '', 100_000),
      deep('{"domain":', '', 20_000),
      `{"domain":"d","descriptors":${deep('[', ']', 9999)}}`,
      more(`"x":${deep('[', ']', 9000)}`),
    ],
  },
  429: {
    'a limit that is used up': [list(entry('once', 'a')), list(entry('once', 'b'), entry('once', 'b'))],
    'many hits': ['4294967295', '1e9', '1E1'].map(hits),
    'a limit of 0': ['{"unit":"HOUR"}', '{"requestsPerUnit":0,"unit":"YEAR"}'].map(ownLimit),
  },
}

/** A body, the service's status, the reference's status, and the reason of the difference. */
const different: readonly (readonly [string, Body, number, number, string])[] = [
  ['a byte order mark', `\ufeff${list(entry('none'))}`, 200, 400, 'RFC 8259 allows parsers to ignore it'],
  [
    '03',
    hits('"03"'),
    200,
    400,
    'a number in a string may be written in any way in which JavaScript writes numbers',
  ],
  ['0x10', hits('"0x10"'), 429, 400, 'as before'],
  ['2^64-1 hits', ownHits('"18446744073709551615"'), 429, 400, 'the reference counts backwards and fails'],
  ['1e19 hits', ownHits('1e19'), 429, 400, 'as before'],
  ['a week', ownLimit('{"requestsPerUnit":2,"unit":7}'), 400, 200, 'requests have no unit with this number'],
  ['2 MB', list(entry('n', 'x'.repeat(2_000_000))), 400, 200, 'a body has at most 1 MiB'],
  [
    '10,001 descriptors',
    list(...Array.from({ length: 10_001 }, () => '{}')),
    400,
    200,
    'more than 10,000 parts',
  ],
]

const skip = missingProgram('redis-server') || missingReference()

describe('/json of the reference and of Tollway', { skip }, () => {
  let redis: RedisServer
  let pair: Pair
  const ending: (() => Promise<unknown>)[] = []
  before(async () => {
    redis = await startRedis()
    ending.push(() => redis.stop())
    const env = { LIMIT_RESPONSE_HEADERS_ENABLED: 'true', RESPONSE_DYNAMIC_METADATA: 'true' }
    pair = await startPair({ after: end => void ending.unshift(end) }, { redis, files: [configuration], env })
  })
  after(async () => {
    for (const end of ending) await end()
  })

  for (const [status, groups] of Object.entries(same)) {
    for (const [name, group] of Object.entries(groups)) {
      test(`${status}: ${name}`, async () => {
        for (const body of group) {
          const [ours, reference] = await Promise.all([pair.ours.askJson(body), pair.reference.askJson(body)])
          const shown = Buffer.from(body).toString().slice(0, 500)
          assert.deepEqual([ours.status, reference.status], [Number(status), Number(status)], shown)
          if (ours.status === 400) assert.equal(ours.body, reference.body, shown)
          else compareBodies(ours.body, reference.body, shown)
        }
      })
    }
  }

  for (const [name, body, own, its, reason] of different) {
    test(`${name}: ${own}, because ${reason}`, async () => {
      const [ours, reference] = await Promise.all([pair.ours.askJson(body), pair.reference.askJson(body)])
      assert.deepEqual([ours.status, reference.status], [own, its])
    })
  }

  test('both send no headers about a limit of 2^32-1 of which nothing is used', async () => {
    const ask = async (hits: number) => {
      const entries = [{ key: 'most', value: 'x' }]
      const body = JSON.stringify({ domain: 'd', descriptors: [{ entries, hitsAddend: hits }] })
      return await Promise.all([pair.ours.askJson(body), pair.reference.askJson(body)])
    }
    const headersOf = ({ body }: { readonly body: string }) =>
      (JSON.parse(body) as { responseHeadersToAdd?: unknown[] }).responseHeadersToAdd?.length ?? 0
    assert.deepEqual((await ask(0)).map(headersOf), [0, 0])
    assert.deepEqual((await ask(1)).map(headersOf), [3, 3])
  })

  test('both accept any method, and no other path', async () => {
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      const of = async ({ httpPort }: { readonly httpPort: number }, path: string) => {
        const response = await fetch(`http://127.0.0.1:${httpPort}${path}`, { method })
        const type = response.headers.get('content-type')
        return [response.status, type, await response.text()]
      }
      for (const path of ['/json', '/json?x=1', '/json/', '/', '/healthcheck', '/Json']) {
        const both = [await of(pair.ours.process, path), await of(pair.reference.process, path)]
        assert.deepEqual(both[0], both[1], `${method} ${path}`)
      }
    }
  })
})

function compareBodies(ours: string, reference: string, shown: string): void {
  const own = JSON.parse(ours) as Answer
  const about = { request: {}, ours: own, isQuota: () => false, globalShadowMode: false }
  assert.deepEqual(own, expectedAnswer(JSON.parse(reference) as Answer, about, new Set()), shown)
}
