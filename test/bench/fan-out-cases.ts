import type { BenchCase, CaseResult, Extent } from './bench-case.ts'
import { missingGoRelay, startBareWrites, startBroker, startGoRelay, startRelay } from './broker-servers.ts'
import { type Comparison, compareRounds, roundRatios } from './compare.ts'
import { formatNumber } from './format-number.ts'
import { inTurn } from './in-turn.ts'
import { openStreamLoad, type StreamLoad } from './load/stream-load.ts'
import { measureStreams, type StreamMeasurement } from './measure-streams.ts'
import { median } from './percentiles.ts'
import type { MeasuredServer } from './servers.ts'

/** One producer, and consumers with separate connections, through the broker and through the yardstick. */
interface FanOut {
  readonly name: string
  readonly title: string
  readonly consumers: number
  /** Undefined for the full rate. */
  readonly messagesPerSecond?: number
  readonly comparisons: readonly Comparison[]
  /** The comparisons with the relay on grpc-go, where it is built. */
  readonly goComparisons: readonly Comparison[]
}

const cpuRatio: Comparison = { what: 'CPU a delivery', figure: 'cpuMicros', unit: 'µs', of: 'ratio' }
const rateRatio: Comparison = {
  what: 'deliveries/s',
  figure: 'deliveriesPerSecond',
  unit: '/s',
  of: 'ratio',
  boundByOtherCore: true,
}

/** Thirty messages a second are few: a shorter round would have less CPU time than can be measured. */
export const minPacedRoundMs = 1500

const fanOuts: readonly FanOut[] = [
  {
    name: 'fan-out',
    title: '100 consumers × 30 messages/s',
    consumers: 100,
    messagesPerSecond: 30,
    comparisons: [
      // With few messages on many connections, most of the time is the kernel's for each write, in any
      // program.
      { ...cpuRatio, goal: { atMost: 1 / 3, bearable: 1 } },
      { what: 'p99', figure: 'p99Ms', unit: 'ms', of: 'ours', goal: { atMost: 5 } },
    ],
    goComparisons: [{ ...cpuRatio, what: 'CPU a delivery, to grpc-go', goal: { atMost: 0.8 } }],
  },
  {
    name: 'fan-out-flat',
    title: '20 consumers, as many messages as the server accepts',
    consumers: 20,
    comparisons: [{ ...rateRatio, goal: { atLeast: 4 } }, cpuRatio],
    goComparisons: [
      { ...rateRatio, what: 'deliveries/s, to grpc-go', goal: { atLeast: 1 } },
      { what: 'p99, to grpc-go', figure: 'p99Ms', unit: 'ms', of: 'ratio' },
    ],
  },
]

export const fanOutCases: readonly BenchCase[] = fanOuts.map(fanOut => ({
  name: fanOut.name,
  title: fanOut.title,
  needs: [],
  run: extent => run(fanOut, extent),
}))

interface Contestant {
  readonly server: MeasuredServer
  readonly load: StreamLoad
}

async function run(fanOut: FanOut, extent: Extent): Promise<CaseResult> {
  const servers: MeasuredServer[] = []
  try {
    servers.push(await startBroker('ours'))
    servers.push(await startRelay())
    if (missingGoRelay() === false) servers.push(await startGoRelay())
    // The floor applies only to a rate: at full rate, a program that gathers messages needs fewer writes.
    if (fanOut.messagesPerSecond !== undefined) servers.push(await startBareWrites())
    const contestants: Contestant[] = []
    for (const server of servers) contestants.push({ server, load: await open(fanOut, server) })
    const result = await compare(fanOut, extent, contestants)
    for (const { load } of contestants) await load.end()
    return result
  } finally {
    await Promise.all(servers.map(server => server.end()))
  }
}

function open({ consumers }: FanOut, { port }: MeasuredServer): Promise<StreamLoad> {
  return openStreamLoad({ pushPort: port, pullPort: port, name: 'bench', streams: 1, consumers })
}

async function compare(
  { messagesPerSecond, comparisons, goComparisons }: FanOut,
  { rounds, roundMs, warmUpMs, firstWarmUpMs }: Extent,
  contestants: readonly Contestant[],
): Promise<CaseResult> {
  const drive = (load: StreamLoad, durationMs: number) =>
    messagesPerSecond === undefined ? load.flatOut(durationMs) : load.atRate(messagesPerSecond, durationMs)
  const measuredMs = messagesPerSecond === undefined ? roundMs : Math.max(roundMs, minPacedRoundMs)
  // Code is compiled only after thousands of messages, so the first ones are sent at full rate.
  for (const { load } of contestants) await load.flatOut(firstWarmUpMs)
  const measured = await inTurn(contestants, rounds, async ({ server, load }) => {
    await drive(load, warmUpMs)
    return measureStreams([server], () => drive(load, measuredMs))
  })
  const measurements = Object.fromEntries(
    contestants.map(({ server: { name } }, place) => [name, measured[place] ?? []]),
  )
  const { ours = [], yardstick = [], 'grpc-go relay': goRelay, 'bare writes': bareWrites } = measurements
  return {
    rows: [
      ...compareRounds(comparisons, ours, yardstick),
      ...(goRelay === undefined ? [] : compareRounds(goComparisons, ours, goRelay)),
    ],
    measurements,
    notes: bareWrites === undefined ? [] : [floorNote(bareWrites, yardstick)],
  }
}

/** Returns a note about the ratio of CPU that remains if the program itself takes none. */
function floorNote(
  bareWrites: readonly StreamMeasurement[],
  yardstick: readonly StreamMeasurement[],
): string {
  const share = formatNumber(median(roundRatios('cpuMicros', bareWrites, yardstick)))
  return `writing the same bytes to the same sockets alone takes ${share} of the CPU of the yardstick`
}
