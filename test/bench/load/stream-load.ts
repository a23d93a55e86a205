import { waitFor } from '../../support/wait-for.ts'
import { pullPath, pushPath } from './animation-messages.ts'
import { paced } from './paced.ts'
import { openStreamConnection, type StreamConnection } from './stream-connection.ts'
import { type Consumer, createConsumer, createProducer, emptyTally, type Producer } from './stream-ends.ts'

export interface StreamLoadShape {
  /** The port of the server for pushes, and of the one for pulls. */
  readonly pushPort: number
  readonly pullPort: number
  /** The prefix of the ids, so that loads of one server are independent. */
  readonly name: string
  /** Each stream has one producer. */
  readonly streams: number
  /** The number of consumers of each stream. */
  readonly consumers: number
  /**
   * The number of connections that the producers share, and the consumers. Without it each has a separate
   * one.
   */
  readonly connections?: number
}

export interface StreamLoadResult {
  readonly deliveries: number
  /** Messages that a consumer did not receive after an earlier one. */
  readonly lost: number
  readonly seconds: number
  /** The times from the due time of a message to its delivery, for each delivery. */
  readonly latenciesMs: Float64Array
  readonly loadCpuMicros: number
}

/** Connected producers and consumers, which stay connected from round to round. */
export interface StreamLoad {
  /** Every producer pushes at this rate; all streams are spread evenly. */
  atRate(messagesPerSecond: number, durationMs: number): Promise<StreamLoadResult>
  /** Every producer pushes at full rate. */
  flatOut(durationMs: number): Promise<StreamLoadResult>
  /** Adds a consumer of the first stream that reads nothing; it is not waited for. */
  stall(): Promise<void>
  /** @throws Error when a consumer does not receive the status at the end, and the end itself */
  end(): Promise<void>
}

/** The deadline for the delivery of sent messages. */
const timeoutMs = 20_000

/** Connects first consumers, then producers, and pushes the headers. */
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

/** All connections of a load; a lost one fails the current wait. */
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
    // Consecutive streams share a connection, like those of one pod.
    return (place: number) => mine[Math.floor((place * count) / streams)] as StreamConnection
  }

  return {
    open,
    async roundTrip(): Promise<void> {
      await Promise.all(opened.map(connection => connection.roundTrip()))
    },
    async until(what: string, condition: () => boolean): Promise<void> {
      await waitFor(what, () => lostReason !== undefined || condition(), timeoutMs)
      if (lostReason !== undefined) throw new Error(`the load lost a connection: ${lostReason}`)
    },
    close(): void {
      for (const connection of opened) connection.close()
    },
  }
}
