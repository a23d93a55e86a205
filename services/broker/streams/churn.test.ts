import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { statEntries } from '../broker-stats.ts'
import { defaultRoute } from '../routes/route.ts'
import { createSimulation, type Simulation } from './testing/simulation-under-test.ts'

/** Short requests with new ids, like those of a pipeline, must not leak memory. */

const rounds = process.env['SOAK'] === '1' ? 100 : 10
const requestsPerRound = 250
/** How much the heap size may vary without a leak. */
const toleranceBytes = 1024 * 1024

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

/** Runs requests that end in all ways, some with a consumer, until none of them is kept. */
async function churn(simulation: Simulation, round: number): Promise<void> {
  for (let number = 0; number < requestsPerRound; number += 1) {
    const requestId = `${round}-${number}`
    const consumer = number % 3 === 0 ? simulation.consume({ requestId }) : undefined
    const producer = simulation.produce(requestId)
    producer.send('header', '1', '2')
    if (number % 5 === 0) producer.cancel()
    else if (number % 7 === 0) await simulation.log.interrupt('s', requestId)
    else producer.send('SUCCESS')
    producer.halfClose()
    if (number % 6 === 0) consumer?.cancel()
  }
  await simulation.settle()
  simulation.pass(defaultRoute.limits.bufferSeconds * 1000 + 60_000)
  await simulation.settle()
}

test('ended requests with any ids leak no memory', async () => {
  const simulation = createSimulation()
  const heap: number[] = []
  let names: readonly string[] | undefined
  for (let round = 0; round < rounds; round += 1) {
    await churn(simulation, round)
    assert.deepEqual(simulation.broker.requests(), [])
    assert.equal(simulation.broker.waitingPulls, 0)
    const found = statEntries(simulation.stats).map(([name]) => name)
    names ??= found
    assert.deepEqual(found, names, 'statistics have other names after more requests')
    collectGarbage()
    heap.push(process.memoryUsage().heapUsed)
  }
  assert.equal(simulation.stats.route('').counters.pushes, rounds * requestsPerRound)
  // Before the second half, the compilation of code also takes memory.
  const [warm = 0, ...later] = heap.slice(rounds / 2)
  assert.ok((later.at(-1) ?? 0) - warm < toleranceBytes, `the heap grew: ${heap.join(', ')} bytes`)
  await simulation.close()
})
