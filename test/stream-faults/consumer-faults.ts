import { setTimeout as pause } from 'node:timers/promises'
import {
  type AnimationClient,
  openAnimationClient,
} from '../../services/broker/servers/testing/animation-client.ts'
import { encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import { openStreamLoad } from '../bench/load/stream-load.ts'
import { percentile } from '../bench/percentiles.ts'
import { rssMiB } from '../bench/process-usage.ts'
import { seededRandom } from '../support/api-proxy.ts'
import { startBroker } from '../support/broker-process.ts'
import { waitFor } from '../support/wait-for.ts'
import { startRouteServer } from './routes.ts'
import { atMost, type FaultRun, type StreamFault, type StreamFaultReport } from './stream-fault.ts'

export const consumerFaults: readonly StreamFault[] = [
  {
    name: 'stopped-consumer',
    title: 'one consumer stops reading; the oldest messages are dropped for it',
    needs: [],
    run: runStopped,
  },
  {
    name: 'overload',
    title: 'a producer is ten times as fast as its consumer; it has to wait',
    needs: [],
    run: runOverload,
  },
  {
    name: 'gaps',
    title: 'consumers stop and continue at random; the oldest messages are dropped for them',
    needs: [],
    run: runGaps,
  },
  {
    name: 'order',
    title: 'messages as fast as the broker accepts them, each number is checked',
    needs: [],
    run: runOrder,
  },
]

async function runStopped({ t, isLong }: FaultRun): Promise<StreamFaultReport> {
  const consumers = isLong ? 99 : 19
  const ms = isLong ? 10_000 : 500
  const routes = await startRouteServer(t)
  routes.publish([
    { name: 'faults/all', slowConsumers: 'drop-oldest', limits: { bufferBytes: 1024n * 1024n } },
  ])
  const { program, address } = await startBroker(t, routes.settings)
  const port = Number(address.split(':')[1])
  const load = await openStreamLoad({
    pushPort: port,
    pullPort: port,
    name: 'stopped',
    streams: 1,
    consumers,
  })
  const run = async () => {
    const { lost, latenciesMs } = await load.atRate(30, ms)
    return { lost, p99Ms: percentile(latenciesMs, 0.99) }
  }
  await load.atRate(500, 2 * ms)
  const before = await run()
  const rssBefore = rssMiB(program.pid)
  await load.stall()
  await load.atRate(500, 2 * ms)
  const after = await run()
  const growth = rssMiB(program.pid) - rssBefore
  await load.end()
  const lost = before.lost + after.lost
  return {
    size: `1 of ${consumers + 1} consumers`,
    goals: [
      atMost(1.2, '', 'p99 of the others, to before', after.p99Ms / before.p99Ms),
      atMost(4, 'MiB', 'growth of the memory', growth),
    ],
    violations: lost === 0 ? [] : [`the other consumers missed ${lost} messages`],
  }
}

async function runOverload({ t, isLong }: FaultRun): Promise<StreamFaultReport> {
  const total = isLong ? 60_000 : 2_000
  const bytes = 10_000
  const { program, address } = await startBroker(t, {})
  const consumer = openAnimationClient(t, address).pull({ requestId: 'overload' })
  const push = openAnimationClient(t, address).push()
  push.write(encodeText('header', 'overload'))
  await consumer.until('header overload')
  for (let index = 0; index < total; index += 1) push.write(encodeText(`big:${bytes}`))
  push.write(encodeText('SUCCESS'))
  push.end()
  const rss: number[] = []
  let isOver = false
  void consumer.end.then(() => (isOver = true))
  while (!isOver) {
    // The consumer reads for a tenth of the time.
    consumer.resume()
    await pause(2)
    consumer.stall()
    await pause(18)
    if (consumer.messages.length > total / 10) rss.push(rssMiB(program.pid))
  }
  consumer.resume()
  await consumer.until('SUCCESS')
  const got = consumer.messages.length - 2
  const whole = consumer.messages.filter(message => message.length === bytes).length
  return {
    size: `${total} messages of ${bytes} bytes`,
    goals: [atMost(32, 'MiB', 'growth of the memory', Math.max(...rss) - (rss[0] ?? 0))],
    violations: got === total && whole === total ? [] : [`${whole} of ${total} messages came, ${got} in all`],
  }
}

/** An unknown field of 2,000 bytes, which readers skip: the buffers of the connection take less. */
const padding = Buffer.concat([Buffer.from([0xc2, 0x0c, 0xd0, 0x0f]), Buffer.alloc(2_000)])

interface GapCheck {
  readonly received: number
  readonly announced: number
  readonly violations: readonly string[]
}

async function runGaps({ t, isLong, seed }: FaultRun): Promise<StreamFaultReport> {
  const messages = isLong ? 100_000 : 2_000
  const consumers = isLong ? 10 : 3
  const random = seededRandom(seed)
  const routes = await startRouteServer(t)
  routes.publish([{ name: 'faults/all', slowConsumers: 'drop-oldest', limits: { bufferBytes: 20_000n } }])
  const { address } = await startBroker(t, routes.settings)
  const clients: AnimationClient[] = Array.from({ length: consumers }, () => openAnimationClient(t, address))
  const pulls = clients.map(client => client.pull({ requestId: 'gaps' }))
  const push = openAnimationClient(t, address).push()
  push.write(encodeText('header', 'gaps'))
  for (const pull of pulls) await pull.until('header gaps')
  for (let number = 1; number <= messages; number += 1) {
    push.write(Buffer.concat([encodeText(`${number}`), padding]))
    if (number % 50 !== 0) continue
    for (const pull of pulls) {
      const chance = random()
      if (chance < 0.2) pull.stall()
      else if (chance < 0.4) pull.resume()
    }
    // The broker receives these messages before the consumers change.
    await pause(10)
  }
  push.write(encodeText('SUCCESS'))
  push.end()
  for (const pull of pulls) pull.resume()
  for (const pull of pulls) await waitFor('the end of a pull', async () => (await pull.end) === 'OK', 60_000)
  const found = pulls.map(pull => checkGaps(pull.texts(), messages))
  const sum = (of: (one: GapCheck) => number) => found.reduce((total, one) => total + of(one), 0)
  const announced = sum(one => one.announced)
  return {
    size:
      `${consumers} consumers: ${sum(one => one.received)} messages came, ` +
      `${announced} were announced as dropped`,
    goals: [],
    violations: [
      ...(announced === 0 ? ['the case dropped no message'] : []),
      ...found.flatMap(({ violations }) => violations),
    ],
  }
}

/** Each number must be the next one, or that of the announcement before it. */
function checkGaps(texts: readonly string[], messages: number): GapCheck {
  const violations: string[] = []
  let next = 1
  let received = 0
  let announced = 0
  for (const text of texts.slice(1, -1)) {
    const gap = /^WARNING (\d+) messages? (?:was|were) dropped, the next is message (\d+)$/.exec(text)
    if (gap !== null) {
      announced += Number(gap[1])
      next += Number(gap[1])
      if (next !== Number(gap[2])) violations.push(`'${text}' instead of ${next}`)
    } else if (Number(text) === next) {
      received += 1
      next += 1
    } else violations.push(`'${text}' instead of ${next}`)
  }
  if (next !== messages + 1 || texts.at(-1) !== 'SUCCESS')
    violations.push(`the end is ${texts.at(-1)}, ${next}`)
  return { received, announced, violations: violations.slice(0, 3) }
}

async function runOrder({ t, isLong }: FaultRun): Promise<StreamFaultReport> {
  const { address } = await startBroker(t, {})
  const port = Number(address.split(':')[1])
  const load = await openStreamLoad({
    pushPort: port,
    pullPort: port,
    name: 'order',
    streams: 5,
    consumers: 4,
  })
  const wanted = isLong ? 5_000_000 : 50_000
  let deliveries = 0
  let lost = 0
  while (deliveries < wanted) {
    const round = await load.flatOut(isLong ? 5_000 : 200)
    deliveries += round.deliveries
    lost += round.lost
  }
  await load.end()
  return {
    size: `${deliveries} deliveries, 5 streams × 4 consumers`,
    goals: [],
    violations: lost === 0 ? [] : [`${lost} messages were missed`],
  }
}
