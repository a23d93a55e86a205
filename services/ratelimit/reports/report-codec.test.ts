import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import {
  CounterCall_Action,
  CounterCallSchema,
  Subscribe_What,
  SubscribeSchema,
} from '@tollway/proto/tollway/operator/v1/counters'
import { toAction, toWatch } from './report-codec.ts'

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
