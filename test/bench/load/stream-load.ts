import { waitFor } from '../../support/wait-for.ts'
import { pullPath, pushPath } from './animation-messages.ts'
import { paced } from './paced.ts'
import { openStreamConnection, type StreamConnection } from './stream-connection.ts'
import { type Consumer, createConsumer, createProducer, emptyTally, type Producer } from './stream-ends.ts'

export interface StreamLoadShape {
  /** Of the server that is pushed to, and of the one that is pulled from. */
  readonly pushPort: number
  readonly pullPort: number
  /** Begins the ids, so that loads of one server do not meet. */
  readonly name: string
  /** Each has one producer. */
  readonly streams: number
  /** Of each stream. */
  readonly consumers: number
  /** How many connections the producers share, and the consumers. Without it each has its own. */
  readonly connections?: number
}

export interface StreamLoadResult {
  readonly deliveries: number
  /** Messages that a consumer did not get, though it had got an earlier one. */
  readonly lost: number
  readonly seconds: number
  /** From when a message was to be sent to when a consumer had it, of each delivery. */
  readonly latenciesMs: Float64Array
  readonly loadCpuMicros: number
}

/** Producers and consumers that are connected, and stay so from round to round. */
export interface StreamLoad {
  /** Every producer pushes so many messages a second; all streams together evenly. */
  atRate(messagesPerSecond: number, durationMs: number): Promise<StreamLoadResult>
  /** Every producer pushes what the server takes. */
  flatOut(durationMs: number): Promise<StreamLoadResult>
  /** One more consumer of the first stream, which takes nothing; it is not waited for. */
  stall(): Promise<void>
  /** @throws Error when a consumer does not get the status at the end, and the end itself. */
  end(): Promise<void>
}

/** What was sent has so long to come. */
const patienceMs = 20_000

/** Connects consumers first, then producers, and pushes the headers. */
export async function openStreamLoad(shape: StreamLoadShape): Promise<StreamLoad> {
  const { streams, pullPort, pushPort, connections: share } = shape
  const idOf = (stream: number) => `${shape.name}-${stream}`
  const tally = emptyTally()
  const connections = createConnections()
  const pulls = streams * shape.consumers
  const pullConnection = await connections.open(pullPort, pullPath, pulls, share)
  const consumers = Array.from({ length: pulls }, (_, place) => {
    const stream = place % streams
    return { stream, consumer: createConsumer(pullConnection(place), idOf(stream), tally) }
  })
  await connections.roundTrip()
  const pushConnection = await connections.open(pushPort, pushPath, streams, share)
  const producers = Array.from({ length: streams }, (_, stream) =>
    createProducer(pushConnection(stream), idOf(stream)),
  )
  await connections.roundTrip()

  async function measured(produce: () => Promise<void>): Promise<StreamLoadResult> {
    Object.assign(tally, emptyTally())
    const cpuBefore = process.cpuUsage()
    const startedMs = performance.now()
    await produce()
    const hasAll = ({ stream, consumer }: (typeof consumers)[number]) =>
      consumer.got === producers[stream]?.sent
    await connections.until('every consumer to get every message', () => consumers.every(hasAll))
    const { user, system } = process.cpuUsage(cpuBefore)
    const { deliveries, lost, lastMs, latencies } = tally
    const seconds = (lastMs - startedMs) / 1000
    return { deliveries, lost, seconds, latenciesMs: latencies.values(), loadCpuMicros: user + system }
  }

  return {
    atRate: (messagesPerSecond, durationMs) =>
      measured(() =>
        paced(messagesPerSecond * streams, durationMs, (message, dueMs) =>
          producers[message % streams]?.send(dueMs),
        ),
      ),
    flatOut: durationMs => measured(() => flood(producers, durationMs)),
    async stall() {
      const connection = await connections.open(pullPort, pullPath, 1, 1, true)
      createConsumer(connection(0), idOf(0), emptyTally())
      await connections.roundTrip()
    },
    async end() {
      for (const producer of producers) producer.end()
      const isOver = ({ consumer }: { readonly consumer: Consumer }) => consumer.isOver
      try {
        await connections.until('a status and an end for each consumer', () => consumers.every(isOver))
      } finally {
        connections.close()
      }
    },
  }
}

async function flood(producers: readonly Producer[], durationMs: number): Promise<void> {
  const untilMs = performance.now() + durationMs
  await Promise.all(producers.map(producer => new Promise<void>(resolve => producer.flood(untilMs, resolve))))
}

/** All connections of a load; one that is lost fails what is waited for. */
function createConnections() {
  const opened: StreamConnection[] = []
  let lostReason: string | undefined

  async function open(port: number, path: string, streams: number, share = streams, stalled = false) {
    const onLost = (reason: string) => {
      lostReason ??= reason
    }
    const target = { port, path, stalled, onLost }
    const count = Math.min(streams, share)
    const mine = await Promise.all(Array.from({ length: count }, () => openStreamConnection(target)))
    opened.push(...mine)
    // Streams that are due one after the other share a connection, as those of one pod do.
    return (place: number) => mine[Math.floor((place * count) / streams)] as StreamConnection
  }

  return {
    open,
    async roundTrip(): Promise<void> {
      await Promise.all(opened.map(connection => connection.roundTrip()))
    },
    async until(what: string, condition: () => boolean): Promise<void> {
      await waitFor(what, () => lostReason !== undefined || condition(), patienceMs)
      if (lostReason !== undefined) throw new Error(`the load lost a connection: ${lostReason}`)
    },
    close(): void {
      for (const connection of opened) connection.close()
    },
  }
}
