import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import type { Metadata } from '@tollway/grpc/server.ts'
import type { Route } from '../../routes/route.ts'
import type { BrokerOptions } from '../stream-context.ts'
import { type Consumer, createSimulation, type Producer } from './simulation-under-test.ts'

export interface Scenario {
  readonly rule: string
  readonly route?: Partial<Route>
  readonly limits?: Partial<BrokerOptions['limits']>
  readonly story: string
}

/** Registers a test of each scenario. */
export function testScenarios(scenarios: readonly Scenario[]): void {
  for (const scenario of scenarios) test(scenario.rule, () => runScenario(scenario))
}

/**
 * Runs a story, one step per line:
 *
 *     push r1: header 1 2      the messages of the producer of r1; `end` half-closes, `cancel` cancels the
 *                              call, `lose` loses its connection
 *     push r1/b: resume=r1     continues r1 with the token of that response
 *     r1/b begins at 2         the number of the message that must be sent next
 *     pull p: stream=s         also request=r1, received=r1=3, token=secret
 *     p stalls | p goes on | p cancels
 *     3s pass
 *     interrupt s r1
 *     route needs open         from now on the route requires this token
 *     drain | close            the first and the last step of the broker's end
 *     p got header r1, 1, 2    all messages that p received since the last `got`, in this order
 *     p ended OK               or a gRPC code; its text must contain the words that follow
 *     p runs | r1 runs
 *     r1 answered SUCCESS      or another code, of a Status or of gRPC
 *     r1 waits                 the broker has not read all its messages
 */
async function runScenario({ story, route = {}, limits = {} }: Scenario): Promise<void> {
  const simulation = createSimulation(route, limits)
  const producers = new Map<string, Producer>()
  const consumers = new Map<string, Consumer>()
  const checkedTexts = new Map<string, number>()
  const findProducer = (name: string) => producers.get(name) ?? fail(`no producer ${name}`)
  const findConsumer = (name: string) => consumers.get(name) ?? fail(`no consumer ${name}`)

  const steps: readonly [RegExp, (...parts: string[]) => unknown][] = [
    [
      /^push (\S+):(.*)$/,
      (name = '', words = '') => {
        const [requestId = ''] = name.split('/')
        const all = words.split(' ').filter(word => word !== '')
        const token = all.find(word => word.startsWith('token='))
        const resume = all.find(word => word.startsWith('resume='))
        const metadata = new Map(createMetadata(token))
        const presented =
          resume && findProducer(resume.slice('resume='.length)).headers?.get('tollway-resume')
        if (presented) metadata.set('tollway-resume', presented)
        const producer = producers.get(name) ?? simulation.produce(requestId, metadata)
        producers.set(name, producer)
        for (const word of all.filter(word => word !== token && word !== resume)) {
          if (word === 'end') producer.halfClose()
          else if (word === 'cancel') producer.cancel()
          else if (word === 'lose') producer.lose()
          else producer.send(word)
        }
      },
    ],
    [
      /^pull (\S+):(.*)$/,
      (name = '', words = '') => {
        const { stream = '', request = '', ...rest } = parseFields(words)
        const wanted = { streamId: stream, requestId: request }
        const token = rest['token'] && `token=${rest['token']}`
        consumers.set(name, simulation.consume(wanted, createMetadata(token, rest['received'])))
      },
    ],
    [/^(\S+) stalls$/, (name = '') => findConsumer(name).stall()],
    [/^(\S+) goes on$/, (name = '') => findConsumer(name).resume()],
    [/^(\S+) cancels$/, (name = '') => findConsumer(name).cancel()],
    [/^(\d+)s pass$/, seconds => simulation.pass(Number(seconds) * 1000)],
    [/^interrupt (\S+) ?(\S*)$/, (stream = '', request = '') => simulation.log.interrupt(stream, request)],
    [
      /^route needs (.*)$/,
      (token = '') => {
        const hashes = [createHash('sha256').update(token).digest()]
        simulation.changeRoute({ tokens: { push: hashes, pull: hashes } })
      },
    ],
    [/^drain$/, () => simulation.broker.drain()],
    [/^close$/, () => simulation.broker.close()],
    [
      /^(\S+) got (.*)$/,
      (name = '', expected = '') => {
        const { texts } = findConsumer(name)
        const fresh = texts.slice(checkedTexts.get(name))
        checkedTexts.set(name, texts.length)
        assert.equal(fresh.join(', ') || 'nothing', expected)
      },
    ],
    [/^(\S+) ended (.*)$/, (name = '', expected = '') => assertBegins(findConsumer(name).end, expected)],
    [
      /^(\S+) answered (.*)$/,
      (name = '', expected = '') => assertBegins(findProducer(name).answer, expected),
    ],
    [
      /^(\S+) begins at (\d+)$/,
      (name = '', number = '') => assert.deepEqual(findProducer(name).headers?.get('tollway-next'), [number]),
    ],
    [/^(\S+) waits$/, (name = '') => assert.ok(findProducer(name).unsent > 0, `${name} need not wait`)],
    [
      /^(\S+) runs$/,
      (name = '') => assert.equal(consumers.get(name)?.end ?? producers.get(name)?.answer, undefined),
    ],
  ]

  for (const line of story.split('\n').map(text => text.trim())) {
    if (line === '') continue
    const step = steps.find(([form]) => form.test(line)) ?? fail(`no such step: ${line}`)
    const [form, run] = step
    try {
      await run(...(form.exec(line) ?? []).slice(1))
      await simulation.settle()
    } catch (error) {
      throw new Error(`at "${line}": ${(error as Error).message}`)
    }
  }
  await simulation.close()
}

function fail(message: string): never {
  throw new Error(message)
}

/**
 * Checks that a text begins with the code and contains the words that follow it in `expected`:
 * `RESOURCE_EXHAUSTED slow`.
 */
function assertBegins(found: string | undefined, expected: string): void {
  const [code = '', ...words] = expected.split(' ')
  const holds = found?.split(' ')[0] === code && found.includes(words.join(' '))
  assert.ok(holds, `it is ${found}, expected ${expected}`)
}

function parseFields(words: string): Record<string, string> {
  const fields = words
    .trim()
    .split(/\s+/)
    .map(word => /^(\w+)=(.*)$/.exec(word)?.slice(1) ?? [word, ''])
  return Object.fromEntries(fields)
}

function createMetadata(token: string | undefined, received?: string): Metadata {
  const metadata = new Map<string, readonly string[]>()
  if (token) metadata.set('authorization', [`Bearer ${token.slice('token='.length)}`])
  if (received) metadata.set('tollway-received', [received])
  return metadata
}
