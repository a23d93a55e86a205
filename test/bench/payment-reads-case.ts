import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import type { BenchCase, CaseResult, Extent, GoalRow } from './bench-case.ts'
import { type Comparison, compareRounds } from './compare.ts'
import { minPacedRoundMs } from './fan-out-cases.ts'
import { inTurn } from './in-turn.ts'
import { driveAtRate } from './load/at-rate.ts'
import { driveFlatOut } from './load/flat-out.ts'
import { httpLoad } from './load/http-connection.ts'
import type { Load } from './load/load-connection.ts'
import { uniform } from './load/requests.ts'
import { merchantId, merchants, seedMerchants, seedTransactions, transactionId } from './payments-books.ts'
import {
  type ApiMeasurement,
  excuseOf,
  getRequest,
  measureApi,
  startPaymentsService,
} from './payments-server.ts'
import type { MeasuredServer } from './servers.ts'

/** The latency of reads at half of the maximum rate. */
export const paymentReadsCase: BenchCase = {
  name: 'payment-reads',
  title: 'payments read over HTTP, 32 connections at half the capacity',
  needs: ['postgres'],
  run,
}

const connections = 32
const transactions = 10_000
const pageLength = 20

const any = uniform(transactions)

const reads: Readonly<Record<string, () => string>> = {
  'a transaction': () => `/transactions/${transactionId(any())}`,
  [`a page of ${pageLength}`]: () => {
    // Anywhere in a list, but with a complete page after it.
    const number = Math.max(any(), merchants * pageLength)
    const before = transactionId(number)
    return `/merchants/${merchantId(number % merchants)}/transactions?limit=${pageLength}&before=${before}`
  },
}

async function run(extent: Extent): Promise<CaseResult> {
  const postgres = await startPostgres()
  let service: MeasuredServer | undefined
  try {
    service = await startPaymentsService(await postgres.createDatabase('payments'))
    await seedMerchants(postgres, 'payments')
    await seedTransactions(postgres, 'payments', { from: 0, count: transactions, merchants })
    const asked: Asked[] = []
    for (const [what, path] of Object.entries(reads)) {
      const load = readLoad(service, path)
      asked.push({ what, load, half: (await capacityOf(load, extent)) / 2 })
    }
    const rounds = await measureInTurn(service, postgres, asked, extent)
    const rows = asked.flatMap(({ what }, place) => rowsOf(what, rounds[place] ?? []))
    const measurements = Object.fromEntries(asked.map(({ what }, place) => [what, rounds[place] ?? []]))
    const notes = asked.map(
      ({ what, half }) => `${what}: at ${Math.round(half)} requests/s, half of the full rate`,
    )
    return { rows, measurements, notes }
  } finally {
    await service?.end()
    await postgres.stop()
  }
}

interface Asked {
  readonly what: string
  readonly load: Load
  /** Half of the full rate in requests a second. */
  readonly half: number
}

function measureInTurn(
  service: MeasuredServer,
  postgres: PostgresServer,
  asked: readonly Asked[],
  { rounds, roundMs, warmUpMs }: Extent,
) {
  return inTurn<Asked, ApiMeasurement>(asked, rounds, async ({ load, half }) => {
    await driveAtRate(load, half, warmUpMs)
    const durationMs = Math.max(roundMs, minPacedRoundMs)
    return measureApi(service, postgres, () => driveAtRate(load, half, durationMs))
  })
}

const goal = { atMost: 20 }

function rowsOf(what: string, rounds: readonly ApiMeasurement[]): readonly GoalRow[] {
  const p99: Comparison = { what: `p99 of ${what}`, figure: 'p99Ms', unit: 'ms', of: 'ours', goal }
  return compareRounds([p99], rounds, []).map(row => ({ ...row, ...excuseOf(rounds) }))
}

function readLoad({ port }: MeasuredServer, path: () => string): Load {
  return { open: httpLoad({ port, status: 200 }), connections, streams: 1, bodyOf: () => getRequest(path()) }
}

async function capacityOf(load: Load, { firstWarmUpMs, roundMs }: Extent): Promise<number> {
  await driveFlatOut(load, { durationMs: firstWarmUpMs })
  const { calls, failed, seconds } = await driveFlatOut(load, { durationMs: roundMs })
  if (failed > 0) throw new Error(`${failed} of ${calls} answers were not as expected`)
  return calls / seconds
}
