import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openTracingTo, startCollector } from '../../chassis/tracing/testing/span-collector.ts'
import { createSimulation } from './testing/simulation-under-test.ts'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const parentId = 'b7ad6b7169203331'

test("the spans of a push and of its pulls belong to the producer's trace", async t => {
  const collector = await startCollector(t)
  const tracing = await openTracingTo(t, collector.url)
  const simulation = createSimulation({}, {}, tracing)
  simulation.consume({ streamId: 's' })
  const producer = simulation.produce('r1', new Map([['traceparent', [`00-${traceId}-${parentId}-01`]]]))
  producer.send('header', '1')
  producer.halfClose()
  await simulation.settle()
  await tracing.stop(5_000)
  const attributes = {
    'stream id': 's',
    'request id': 'r1',
    'target object id': 'avatar',
    'source service id': 'source',
    route: '',
  }
  assert.deepEqual(collector.spans.map(({ name }) => name).sort(), ['Pull', 'Push'])
  for (const span of collector.spans) {
    assert.deepEqual([span.traceId, span.parentId], [traceId, parentId])
    assert.deepEqual(span.attributes, attributes)
  }
  const push = collector.spans.find(({ name }) => name === 'Push')
  assert.equal(push?.statusMessage, 'the producer ended without a status after 2 messages')
})
