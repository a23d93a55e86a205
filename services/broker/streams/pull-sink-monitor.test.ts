import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSimulation } from './testing/simulation-under-test.ts'

test('the budget and the statistics count the messages that a consumer has not read', async () => {
  const simulation = createSimulation()
  const { log, stats, broker } = simulation
  const consumer = simulation.consume({ requestId: 'r1' })
  const producer = simulation.produce('r1')
  producer.send('header', '1')
  await simulation.settle()
  consumer.stall()
  producer.send('SUCCESS')
  producer.halfClose()
  await simulation.settle()
  const keptBytes = log.budget.used
  const assertCounts = (bytes: number, pulls: number) => {
    simulation.pass(250)
    assert.equal(log.budget.used - keptBytes, bytes)
    const gauges = new Map(stats.gauges())
    assert.equal(gauges.get('queue.bytes'), bytes)
    assert.equal(gauges.get('consumers.active'), pulls)
    assert.equal(broker.waitingPulls, 0)
  }
  assert.equal(producer.answer, 'SUCCESS 3 messages')
  // The sink of a simulation counts a byte for each message.
  assertCounts(1, 1)
  consumer.resume()
  await simulation.settle()
  assert.equal(consumer.end, 'OK')
  assertCounts(0, 0)
  await simulation.close()
})
