import assert from 'node:assert/strict'
import { test } from 'node:test'
import { maxTextChars } from '@tollway/chassis/tracing/tracing.ts'
import type { DecisionRequest } from './limiter/decision.ts'
import { requestText } from './spans.ts'

const user = { key: 'user', value: 'al"ice' }

const cases: readonly (readonly [DecisionRequest, string])[] = [
  [{ domain: '', descriptors: [], hitsAddend: 0 }, 'domain:""'],
  [
    { domain: 'd', descriptors: [{ entries: [user, { key: 'path', value: '' }] }], hitsAddend: 2 },
    'domain:"d" descriptors:{entries:{key:"user" value:"al\\"ice"} entries:{key:"path" value:""}} ' +
      'hits_addend:2',
  ],
  [
    {
      domain: 'd',
      descriptors: [
        { entries: [user], hitsAddend: 0, limit: { requestsPerUnit: 5, unit: 'minute' } },
        { entries: [], limit: { requestsPerUnit: 1, unit: undefined } },
        { entries: [], hitsAddend: 3, givesBack: true },
      ],
      hitsAddend: 0,
    },
    'domain:"d" descriptors:{entries:{key:"user" value:"al\\"ice"} ' +
      'limit:{requests_per_unit:5 unit:MINUTE} hits_addend:{value:0}} ' +
      'descriptors:{limit:{requests_per_unit:1 unit:UNKNOWN}} ' +
      'descriptors:{hits_addend:{value:3} is_negative_hits:true}',
  ],
]

test('a request is formatted like the text format of protobuf', () => {
  for (const [request, expected] of cases) assert.equal(requestText(request), expected)
})

test('a long request is truncated with a mark', () => {
  const long = 'x'.repeat(1_000_000)
  const entries = Array.from({ length: 10_000 }, () => user)
  const requests: readonly DecisionRequest[] = [
    { domain: long, descriptors: [], hitsAddend: 0 },
    { domain: 'd', descriptors: [{ entries: [{ key: 'k', value: long }] }], hitsAddend: 0 },
    { domain: 'd', descriptors: [{ entries }], hitsAddend: 0 },
    { domain: 'd', descriptors: entries.map(entry => ({ entries: [entry] })), hitsAddend: 0 },
  ]
  for (const request of requests) {
    const text = requestText(request)
    assert.equal(text.length, maxTextChars)
    assert.match(text, /^domain:".*…$/)
  }
})
