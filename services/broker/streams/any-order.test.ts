import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { concurrentRequestPolicies, defaultRoute, type Route, slowConsumerPolicies } from '../routes/route.ts'
import {
  type Consumer,
  createSimulation,
  type Producer,
  type Simulation,
} from './testing/simulation-under-test.ts'

/**
 * For any order of pushes, pulls, cancels and stalls, each consumer gets a header, then its data in order
 * without silent gaps, then a status.
 */

const routes: fc.Arbitrary<Partial<Route>> = fc.record({
  slowConsumers: fc.constantFrom(...slowConsumerPolicies),
  concurrentRequests: fc.constantFrom(...concurrentRequestPolicies),
  lateJoiners: fc.constantFrom(
    { from: 'now' } as const,
    { from: 'start' } as const,
    { from: 'last', seconds: 3 } as const,
  ),
  limits: fc.record({
    ...Object.fromEntries(
      Object.entries(defaultRoute.limits).map(([name, value]) => [name, fc.constant(value)]),
    ),
    bufferBytes: fc.constantFrom(600, 1500, 100_000),
    consumers: fc.constantFrom(2, 100),
    streams: fc.constantFrom(2, 100),
  }) as fc.Arbitrary<Route['limits']>,
})

const whom = fc.nat(2)
const commands = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.record({ do: fc.constant('push' as const), whom }) },
    { weight: 16, arbitrary: fc.record({ do: fc.constant('send' as const), whom, count: fc.nat(6) }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('complete' as const), whom }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('half-close' as const), whom }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('lose' as const), whom }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('interrupt' as const), whom }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('pull' as const), whom, named: fc.boolean() }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('stall' as const), whom }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('resume' as const), whom }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('leave' as const), whom }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('pass' as const), seconds: fc.nat(4) }) },
    { weight: 8, arbitrary: fc.record({ do: fc.constant('settle' as const) }) },
  ),
  { minLength: 30, maxLength: 80, size: 'max' },
)
type Command = typeof commands extends fc.Arbitrary<readonly (infer C)[]> ? C : never

interface Run {
  readonly simulation: Simulation
  readonly pushes: Producer[]
  /** The running producers by index; one that has ended is replaced. */
  readonly producers: (Producer & { readonly id: string; sent: number })[]
  readonly consumers: Consumer[]
  readonly places: (Consumer | undefined)[]
  requests: number
}

function act(run: Run, command: Command): void {
  const { simulation, producers } = run
  const place = 'whom' in command ? command.whom : 0
  const producer = producers[place]
  const consumer = run.places[place]
  switch (command.do) {
    case 'push': {
      run.requests += 1
      const id = `r${run.requests}`
      producer?.cancel()
      producers[place] = Object.assign(simulation.produce(id), { id, sent: 0 })
      producers[place].send('header')
      run.pushes.push(producers[place])
      break
    }
    case 'send':
      for (let count = 0; producer !== undefined && count < command.count; count += 1) {
        producer.sent += 1
        producer.send(String(producer.sent))
      }
      break
    case 'complete':
      producer?.send('SUCCESS')
      producer?.halfClose()
      delete producers[place]
      break
    case 'half-close':
      producer?.halfClose()
      delete producers[place]
      break
    case 'lose':
      producer?.cancel()
      break
    case 'interrupt':
      if (producer !== undefined) simulation.log.interrupt('s', producer.id)
      break
    case 'pull': {
      const next = `r${run.requests + 1}`
      const made = simulation.consume(command.named ? { requestId: producer?.id ?? next } : { streamId: 's' })
      run.consumers.push(made)
      run.places[place] = made
      break
    }
    case 'stall':
      consumer?.stall()
      break
    case 'resume':
      consumer?.resume()
      break
    case 'leave':
      consumer?.cancel()
      break
    case 'pass':
      simulation.pass(command.seconds * 1000)
  }
}

const final = /^(SUCCESS|ERROR .*|INFO interrupted|WARNING superseded .*)$/
const notice =
  /^(INFO joined late|WARNING (\d+) messages? [a-z ]+|WARNING (?:dropped|left out): .*), the next is message (\d+)$/

interface Transcript {
  /** Whether the last request has no status at its end. */
  readonly open: boolean
  /** The number of messages that were dropped after the request was first served. */
  readonly dropped: number
}

/**
 * Splits the messages of a consumer into requests; throws if they are not in order. A status is known to be
 * the last of its producer only when the producer half-closes; until then, the request may be superseded.
 */
function assertTranscript(texts: readonly string[]): Transcript {
  let open = false
  let next = 0
  let dropped = 0
  let atHeader = false
  for (const [index, text] of texts.entries()) {
    const where = `message ${index} of ${texts.join(', ')}`
    const [, what = '', missed = '0', position = ''] = notice.exec(text) ?? []
    if (!open && !(text.startsWith('WARNING superseded') && index > 0)) {
      assert.match(text, /^header /, where)
      open = true
      atHeader = true
      next = 1
      continue
    } else if (position !== '') {
      const isLate = what.startsWith('INFO')
      if (!isLate) assert.equal(next + Number(missed), Number(position), where)
      next = Number(position)
      if (!atHeader) dropped += Number(missed)
      continue
    } else if (final.test(text)) open = false
    else {
      assert.equal(text, String(next), where)
      next += 1
    }
    atHeader = false
  }
  return { open, dropped }
}

async function runAll(route: Partial<Route>, list: readonly Command[]): Promise<void> {
  const simulation = createSimulation(route, { maxWaitingRequests: 2 })
  const run: Run = { simulation, pushes: [], producers: [], consumers: [], places: [], requests: 0 }
  for (const command of list) {
    if (command.do === 'settle') await simulation.settle()
    else act(run, command)
  }
  for (const consumer of run.consumers) consumer.resume()
  for (const producer of run.producers) producer?.cancel()
  await simulation.settle()
  for (const { texts, end } of run.consumers) {
    const { open, dropped } = assertTranscript(texts)
    const hasReason = end !== undefined && end !== 'OK'
    assert.ok(!open || hasReason, `no status at the end of ${texts.join(', ')}; the pull ended: ${end}`)
    if (route.slowConsumers === 'wait') assert.equal(dropped, 0, texts.join(', '))
  }
  for (const consumer of run.consumers) consumer.cancel()
  await simulation.settle()
  for (const { answer } of run.pushes)
    assert.notEqual(answer, undefined, 'a producer waits without a consumer')
  await simulation.close()
  await simulation.settle()
  for (const { end } of run.consumers) assert.notEqual(end, undefined)
  assert.equal(simulation.broker.requests().filter(({ consumers }) => consumers.length > 0).length, 0)
  assert.deepEqual(simulation.broker.loads(), [])
}

const numRuns = Number(process.env['FC_RUNS'] ?? 100)

test('each consumer gets a header, its data without silent gaps, and a status', async () => {
  await fc.assert(fc.asyncProperty(routes, commands, runAll), { numRuns })
})
