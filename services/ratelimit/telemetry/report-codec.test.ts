import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import {
  CounterCall_Action,
  CounterCallSchema,
  Subscribe_What,
  SubscribeSchema,
} from '@tollway/proto/tollway/operator/v1/counters'
import { hideValues } from './hide-values.ts'
import { toAction, toReplayMessage, toWatch } from './report-codec.ts'

test('a subscription with names of more than 65,536 characters is unknown', () => {
  const watch = (chars: number) =>
    toWatch(create(SubscribeSchema, { what: Subscribe_What.TOP, domain: 'shop', rule: 'x'.repeat(chars) }))
  assert.equal(watch(65_532)?.what, 'top')
  assert.equal(watch(65_533), undefined)
})

test('a raise by more hits than a limit can have is unknown', () => {
  const raise = (by: bigint) => toAction(create(CounterCallSchema, { action: CounterCall_Action.RAISE, by }))
  assert.deepEqual(raise(0xffffffffn), { do: 'raise', by: 0xffffffff })
  assert.equal(raise(0x100000000n), undefined)
})

test('hashed keys: the keys of a what-if do not have the values of callers', () => {
  const keys = [{ entries: [{ key: 'user', value: 'alice' }], hits: 3, refusedNow: 0, refusedProposed: 2 }]
  const coverage = { recorded: 3, earlier: 0, share: 1, firstMs: 1_000 }
  const { value } = toReplayMessage(1n, { now: [], proposed: [], keys, coverage }, hideValues('salt'))
  const text = JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? `${part}` : part))
  assert.match(text, /"key":"user","value":"[0-9a-f]{16}"/)
  assert.doesNotMatch(text, /alice/)
})
