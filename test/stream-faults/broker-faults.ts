import { setTimeout as pause } from 'node:timers/promises'
import { percentile } from '../bench/percentiles.ts'
import { type BrokerProcess, startBroker } from '../support/broker-process.ts'
import { freePorts } from '../support/free-ports.ts'
import { startRedis } from '../support/redis-server.ts'
import type { Cleanup } from '../support/tollway.ts'
import { findLoss, openResumingClient, type Produced, type ResumingClient } from './resuming-client.ts'
import { startRouteServer } from './routes.ts'
import { atMost, type FaultRun, type StreamFault, type StreamFaultReport } from './stream-fault.ts'

/** Two brokers over Redis, which end and start again in turn. */
export const brokerFaults: readonly StreamFault[] = [
  {
    name: 'killed',
    title: 'brokers over Redis are killed (kill -9) in turn; producers and consumers continue',
    needs: ['redis-server'],
    run: runKills,
  },
  {
    name: 'rolling',
    title: 'brokers over Redis are restarted (SIGTERM) in turn',
    needs: ['redis-server'],
    run: runRestarts,
  },
]

interface Pair {
  readonly addresses: readonly string[]
  /** Ends the next broker with the signal, and starts it again. */
  replace(signal: NodeJS.Signals): Promise<void>
}

/** Consumers that reconnect get a request from its beginning. */
async function startPair(t: Cleanup): Promise<Pair> {
  const redis = await startRedis()
  t.after(() => redis.stop())
  const routes = await startRouteServer(t)
  routes.publish([{ name: 'faults/all', lateJoiners: 'start' }])
  const env = { ...routes.settings, STREAM_LOG: 'redis', REDIS_URL: redis.url }
  const ports = (await freePorts(4)) as [number, number, number, number]
  const pairs = [
    [ports[0], ports[1]],
    [ports[2], ports[3]],
  ] as const
  const brokers: BrokerProcess[] = await Promise.all(pairs.map(pair => startBroker(t, env, pair)))
  let at = 0
  return {
    addresses: brokers.map(({ address }) => address),
    async replace(signal) {
      const index = at % 2
      at += 1
      await brokers[index]?.program.end(signal)
      brokers[index] = await startBroker(t, env, pairs[index])
    },
  }
}

async function runKills({ t, isLong }: FaultRun): Promise<StreamFaultReport> {
  const { kills, everyMs, requests } = isLong
    ? { kills: 30, everyMs: 2_000, requests: 20 }
    : { kills: 2, everyMs: 300, requests: 4 }
  const pair = await startPair(t)
  const count = isLong ? 4_000 : 120
  const streams = Array.from({ length: requests }, async (_, index) => {
    const requestId = `killed-${index}`
    const consumers = [0, 1].map(first => openResumingClient(t, pair.addresses, first).consume(requestId))
    const produced = await openResumingClient(t, pair.addresses, index).produce(requestId, count, 20)
    return { produced, consumed: await Promise.all(consumers) }
  })
  const whole = Promise.all(streams)
  // If a broker does not start again, its error is the result, not that of the streams.
  whole.catch(() => {})
  for (let kill = 0; kill < kills; kill += 1) {
    await pause(everyMs)
    await pair.replace('SIGKILL')
  }
  const all = await whole
  const consumed = all.flatMap(stream => stream.consumed)
  const pauses = consumed.flatMap(({ pausesMs }) => pausesMs)
  const answers = all.map(({ produced }) => produced.answer)
  return {
    size: `${kills} kills, ${requests} requests of ${count} messages, ${consumed.length} consumers`,
    goals: [atMost(1_000, 'ms', `p99 of ${pauses.length} reconnects`, percentile(pauses, 0.99))],
    violations: [
      ...answers.filter(answer => !answer.startsWith('SUCCESS')).map(answer => `a push got ${answer}`),
      ...consumed.flatMap(one => findLoss(one, count) ?? []),
    ],
  }
}

async function runRestarts({ t, isLong }: FaultRun): Promise<StreamFaultReport> {
  const restarts = isLong ? 20 : 2
  const workers = isLong ? 20 : 4
  const count = 10
  const pair = await startPair(t)
  let isOver = false
  const accepted: Produced[] = []
  const violations: string[] = []

  async function work(
    worker: number,
    ends: { producer: ResumingClient; consumer: ResumingClient },
  ): Promise<number> {
    let requests = 0
    for (; !isOver; requests += 1) {
      const requestId = `rolling-${worker}-${requests}`
      const consumed = ends.consumer.consume(requestId)
      const produced = await ends.producer.produce(requestId, count, 20)
      accepted.push(produced)
      if (!produced.answer.startsWith('SUCCESS')) violations.push(`a push got ${produced.answer}`)
      const loss = findLoss(await consumed, count)
      if (loss !== undefined) violations.push(`a consumer of an acknowledged request ${loss}`)
    }
    return requests
  }

  const works = Array.from({ length: workers }, (_, worker) =>
    work(worker, {
      producer: openResumingClient(t, pair.addresses, worker),
      consumer: openResumingClient(t, pair.addresses, worker + 1),
    }),
  )
  const whole = Promise.all(works)
  whole.catch(() => {})
  for (let restart = 0; restart < restarts; restart += 1) {
    await pause(isLong ? 500 : 200)
    await pair.replace('SIGTERM')
  }
  isOver = true
  const requests = (await whole).reduce((total, each) => total + each, 0)
  const waits = accepted.map(({ acceptedAfterMs }) => acceptedAfterMs)
  return {
    size: `${restarts} restarts, ${requests} requests of ${count} messages`,
    goals: [atMost(300, 'ms', 'p99 until a push is accepted', percentile(waits, 0.99))],
    violations,
  }
}
