import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { BrokerStats } from '../broker-stats.ts'
import { defaultRoute } from '../routes/route.ts'
import { ByteBudget } from '../stream-log/byte-budget.ts'
import {
  type LoggedRequest,
  messagesExpiredRejection,
  type RingCursor,
  type StreamLog,
} from '../stream-log/stream-log.ts'
import { KeyedCounter } from './keyed-counter.ts'
import { Pull } from './pull.ts'
import { defaultBrokerLimits } from './testing/simulation-under-test.ts'

test('a pull of a draining broker ends when its only request is not kept any more', async () => {
  const reading = Promise.withResolvers<RingCursor>()
  const request = {
    ...{ key: '1', sourceServiceId: '', route: '', traceparent: '', openedMs: Date.now(), ended: false },
    ...{ ids: { streamId: 's', requestId: 'r1', targetObjectId: '' }, end: undefined },
    read: () => reading.promise,
  } satisfies LoggedRequest
  const log: Pick<StreamLog, 'budget' | 'healthy' | 'watch'> = {
    budget: new ByteBudget(1_000_000),
    healthy: true,
    watch(_wanted, report) {
      report(request)
      return () => {}
    },
  }
  const context = {
    log: log as StreamLog,
    routes: { choose: () => defaultRoute, onChange: () => () => {} },
    stats: new BrokerStats(),
    clock: systemClock,
    ...{ limits: defaultBrokerLimits, tracing: undefined, newTraceparent: () => '', onBegun() {} },
    ...{ requestsOfRoute: new KeyedCounter(), consumersOfRequest: new KeyedCounter() },
  }
  const pull = new Pull(context, {
    wanted: { streamId: 's', requestId: '', targetObjectId: '' },
    caller: { metadata: new Map(), peer: 'consumer' },
    sink: { write: () => true, onReady() {}, queuedBytes: 0, discard() {}, async flush() {} },
  })
  pull.drain()
  assert.equal(pull.ending, false)
  reading.reject(messagesExpiredRejection())
  await assert.rejects(pull.done, { message: 'the broker is shutting down' })
  assert.equal(context.consumersOfRequest.count('1'), 0)
})
