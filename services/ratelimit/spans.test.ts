import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Span } from '@tollway/chassis/tracing/tracing.ts'
import { fromMetadata } from '@tollway/grpc/calls/call-headers.ts'
import { openTracingTo, startCollector } from '../chassis/tracing/testing/span-collector.ts'
import type { Hit } from './counters/counters.ts'
import type { DecisionRequest } from './limiter/decision.ts'
import { countingSpans, startDecision, startJsonAnswer } from './spans.ts'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const parentId = 'b7ad6b7169203331'
const metadata = new Map([['traceparent', [`00-${traceId}-${parentId}-01`]]])

const request: DecisionRequest = {
  domain: 'checkout',
  descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }],
  hitsAddend: 1,
}

const hit = (key: string, perSecond: boolean): Hit => ({
  key,
  hits: 1,
  expirySeconds: 1,
  limit: 1,
  perSecond,
})
const batch = [hit('minute_1', false), hit('second_1', true), hit('second_2', true)]

/** Returns the spans of a decision during which `work` runs, by name. */
async function spansOf(t: TestContext, work: (decision: Span) => void) {
  const collector = await startCollector(t)
  const tracing = await openTracingTo(t, collector.url)
  const decision = startDecision(tracing, request, fromMetadata(metadata))
  assert.ok(decision)
  work(decision)
  await tracing.stop(5_000)
  return new Map(collector.spans.map(span => [span.name, span]))
}

test("a decision's span has the request, and is a child of the caller's", async t => {
  const spans = await spansOf(t, decision => decision.end())
  const span = spans.get('ShouldRateLimit Execution')
  assert.equal(span?.traceId, traceId)
  assert.equal(span.parentId, parentId)
  assert.deepEqual(span.attributes, {
    domain: 'checkout',
    'request string': 'domain:"checkout" descriptors:{entries:{key:"user" value:"alice"}} hits_addend:1',
  })
})

test("counting and the JSON answer are children of the decision's span", async t => {
  const spans = await spansOf(t, decision => {
    countingSpans.redis(decision, batch).end()
    countingSpans.memcache(decision, batch).end()
    decision.end()
    startJsonAnswer(decision).end()
  })
  const decisionId = spans.get('ShouldRateLimit Execution')?.spanId
  spans.delete('ShouldRateLimit Execution')
  const seen = [...spans.values()].map(({ name, attributes }) => ({ name, ...attributes }))
  assert.deepEqual(seen, [
    { name: 'Redis Pipeline Execution', 'pipeline length': 1, 'perSecondPipeline length': 2 },
    { name: 'Memcached Fetch Execution', 'keysToGet length': 3 },
    { name: 'NewJsonHandler Remaining Execution' },
  ])
  for (const { parentId } of spans.values()) assert.equal(parentId, decisionId)
})
