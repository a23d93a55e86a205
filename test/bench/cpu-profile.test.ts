import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CpuProfile, moduleBelow, selfTimes } from './cpu-profile.ts'

const node = (id: number, functionName: string, url: string) => ({ id, callFrame: { functionName, url } })

const profile: CpuProfile = {
  nodes: [
    node(1, '(root)', ''),
    node(2, '(idle)', ''),
    node(3, '(garbage collector)', ''),
    node(4, 'match', 'file:///src/rules/match.ts'),
    // The same function with another caller.
    node(5, 'match', 'file:///src/rules/match.ts'),
    node(6, '', 'file:///src/rules/match.ts'),
    node(7, 'writev', ''),
  ],
  startTime: 1000,
  //        1010 1030 1130 1160 1165 1168 1168
  samples: [4, 5, 2, 3, 6, 7, 4],
  timeDeltas: [10, 20, 100, 30, 5, 3, 0],
}
const always = { fromMicros: 0, toMicros: 10_000 }
const times = (span = always) =>
  selfTimes(profile, moduleBelow('/src'), span).map(({ name, micros }) => `${name} ${micros}`)

test('the time of a function is the sum over all its callers, the longest first', () => {
  assert.deepEqual(times(), [
    'rules/match.ts:match 30',
    '(garbage collector) 30',
    'rules/match.ts:(anonymous) 5',
    'writev 3',
  ])
})

test('shares are relative to the time that was not idle', () => {
  const [first] = selfTimes(profile, moduleBelow('/src'), always)
  assert.equal(first?.share, 30 / 68)
})

test('samples before or after the span are left out', () => {
  assert.deepEqual(times({ fromMicros: 1020, toMicros: 1160 }), [
    '(garbage collector) 30',
    'rules/match.ts:match 20',
  ])
})

test('modules are named as they are imported', () => {
  const named: readonly [string, string][] = [
    ['file:///src/services/grpc/server.ts', 'services/grpc/server.ts'],
    ['file:///src/node_modules/@grpc/grpc-js/build/src/server.js', '@grpc/grpc-js/build/src/server.js'],
    ['file:///elsewhere/x.ts', '/elsewhere/x.ts'],
    ['node:internal/http2/core', 'node:internal/http2/core'],
  ]
  for (const [url, module] of named) assert.equal(moduleBelow('/src')(url), module)
  assert.equal(moduleBelow('/src/')('file:///src/a.ts'), 'a.ts')
})
