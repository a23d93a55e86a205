import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DecisionRequest } from './decision.ts'
import { buildDynamicMetadata } from './dynamic-metadata.ts'

const request: DecisionRequest = {
  domain: 'd',
  descriptors: [
    {
      entries: [
        { key: 'user', value: 'alice' },
        { key: 'path', value: '' },
      ],
      hitsAddend: 0,
    },
    { entries: [], limit: { requestsPerUnit: 3, unit: 'minute' } },
    { entries: [], limit: { requestsPerUnit: 0, unit: 'day' } },
  ],
  hitsAddend: 2,
}

test('metadata describes the request', () => {
  assert.deepEqual(buildDynamicMetadata(request, []), {
    domain: 'd',
    descriptors: [
      { entries: ['user=alice', 'path='], hitsAddend: 0 },
      { entries: [], limit: 'requests_per_unit:3 unit:MINUTE' },
      { entries: [], limit: 'unit:DAY' },
    ],
    hitsAddend: 2,
  })
})

test('the first value of a name applies, and maps are merged', () => {
  const { metadata } = buildDynamicMetadata(request, [
    { plan: 'gold', owner: { team: 'a' }, list: [1] },
    { plan: 'free', owner: { team: 'b', mail: 'x' }, list: [2], more: null },
  ])
  assert.deepEqual(metadata, { plan: 'gold', owner: { team: 'a', mail: 'x' }, list: [1], more: null })
})

test('a rule may use any name', () => {
  const hostile = JSON.parse('{"__proto__": {"polluted": true}, "constructor": 1}')
  const { metadata } = buildDynamicMetadata(request, [hostile, hostile])
  assert.equal(JSON.stringify(metadata), '{"__proto__":{"polluted":true},"constructor":1}')
  assert.equal(({} as { polluted?: boolean }).polluted, undefined)
})
