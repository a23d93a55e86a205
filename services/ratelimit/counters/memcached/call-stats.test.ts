import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCallStats } from './call-stats.ts'

test('each reply is counted by its result, and a missing one as an error', () => {
  const tallies = new Map<string, { value: number }>()
  const calls = createCallStats({
    counter(name) {
      const tally = { value: 0 }
      tallies.set(name.replace('ratelimit.memcache.', ''), tally)
      return tally
    },
    gauge: assert.fail,
  })
  const error = { error: 'SERVER_ERROR out of memory' }
  for (const reply of [1, 2n, 'NOT_FOUND', error, undefined] as const) calls.countIncrement(reply)
  for (const reply of ['STORED', 'NOT_STORED', 'NOT_STORED', error, undefined] as const) calls.countAdd(reply)
  calls.countReads([{ value: 5 }, { value: 0 }])
  calls.countReads([{ value: 5 }, undefined])
  calls.countReads([error])
  assert.deepEqual(Object.fromEntries([...tallies].map(([name, { value }]) => [name, value])), {
    'increment.__code=success': 2,
    'increment.__code=miss': 1,
    'increment.__code=error': 2,
    'add.__code=success': 1,
    'add.__code=not_stored': 2,
    'add.__code=error': 2,
    'multiget.__code=success': 1,
    'multiget.__code=error': 2,
    keys_requested: 5,
    keys_found: 2,
  })
})
