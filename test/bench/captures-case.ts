import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { hashIdempotencyKey } from '../../services/payments/storage/idempotency/sealed-answer.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { waitFor } from '../support/wait-for.ts'
import type { BenchCase, CaseResult, Extent } from './bench-case.ts'
import { compareRounds } from './compare.ts'
import { inTurn } from './in-turn.ts'
import { driveFlatOut } from './load/flat-out.ts'
import { httpLoad } from './load/http-connection.ts'
import type { Load } from './load/load-connection.ts'
import { createMinimalBooks, minimalCaptureScript, seedMinimalTransactions } from './minimal-capture.ts'
import {
  appId,
  merchantId,
  merchants,
  type NumberedTransactions,
  seedMerchants,
  seedTransactions,
  transactionId,
} from './payments-books.ts'
import {
  type ApiMeasurement,
  excuseOf,
  measureApi,
  postRequest,
  startPaymentsService,
} from './payments-server.ts'
import { captureScript, runPgbench } from './pgbench.ts'
import type { MeasuredServer } from './servers.ts'
import { type SentStatement, tapStatements } from './statement-tap.ts'

/**
 * Compares captures through the API with pgbench on the same core, on separate databases in the same
 * PostgreSQL, which shares the other core with the load. One contestant of pgbench has the statements that
 * the service sends in this run, in as many round trips; the other has the least that a capture can be.
 */
export const capturesCase: BenchCase = {
  name: 'captures',
  title: 'captures over HTTP with an Idempotency-Key, 32 connections',
  needs: ['postgres', 'pgbench'],
  run,
}

const connections = 32
/**
 * The transactions of each of the two loads, for the service; they are captured repeatedly, a little at a
 * time.
 */
const transactions = 5_000
/** The first transactions of a single merchant, and those that only pgbench captures, each once. */
const firstOfOne = 1_000_000
const firstOfPgbench = 10_000_000
const captureAmount = 100
/** Captures of pgbench on each connection: before and after the measurement, and the minimum for a rate. */
const edgeEach = 5
const minEach = 10

/**
 * The numbers of merchants among which the captures are distributed. Captures of one merchant wait for each
 * other.
 */
const spreads = [
  { what: `captures/s, ${merchants} merchants`, name: 'several', merchants, first: 0 },
  { what: 'captures/s, one merchant', name: 'one', merchants: 1, first: firstOfOne },
] as const
type Spread = (typeof spreads)[number]

async function run(extent: Extent): Promise<CaseResult> {
  const postgres = await startPostgres()
  const place = temporaryFolder('bench')
  let service: MeasuredServer | undefined
  try {
    const statements = await learnStatements(postgres)
    for (const copy of ['ours', 'yardstick']) await postgres.sql(`CREATE DATABASE ${copy} TEMPLATE tapped`)
    await createMinimalBooks(postgres, 'minimal')
    service = await startPaymentsService(postgres.urlOf('ours'))
    const sides = { postgres, service, statements, place }
    const results = []
    for (const spread of spreads) results.push(await measureSpread(sides, spread, extent))
    return {
      rows: results.flatMap(({ rows }) => rows),
      measurements: Object.assign({}, ...results.map(({ measurements }) => measurements)),
      notes: [roundTripNote(statements)],
    }
  } finally {
    await service?.end()
    await postgres.stop()
  }
}

function roundTripNote(statements: readonly SentStatement[]): string {
  const trips = new Set(statements.map(({ roundTrip }) => roundTrip)).size
  return `a capture is ${statements.length} statements in ${trips} round trips`
}

const tappedKey = 'a-capture-to-look-at'
const tapped = { number: 1, merchant: 1 }

/**
 * Returns the statements of the service for one capture: the second one, for which everything is prepared.
 * Leaves a database that is a template for copies.
 */
async function learnStatements(postgres: PostgresServer): Promise<readonly SentStatement[]> {
  await postgres.createDatabase('tapped')
  const tap = await tapStatements(postgres.port)
  // No other statements must be sent meanwhile.
  const settings = { BACKGROUND_INTERVAL: '1h' }
  const service = await startPaymentsService(postgres.urlOf('tapped', tap.port), settings)
  try {
    await seedMerchants(postgres, 'tapped')
    for (const { first: from, merchants: owners } of spreads) {
      await seedTransactions(postgres, 'tapped', { from, count: transactions, merchants: owners })
    }
    let statements: readonly SentStatement[] = []
    for (const key of ['warm-up', tappedKey]) {
      tap.take()
      const load = captureLoad(service, () => captureRequest(tapped.number, key))
      const { failed } = await driveFlatOut({ ...load, connections: 1 }, { calls: 1 })
      if (failed > 0) throw new Error('a capture failed')
      statements = tap.take()
    }
    return statements
  } finally {
    await service.end()
    tap.stop()
  }
}

function captureRequest(transaction: number, key: string): Buffer {
  return postRequest(`/transactions/${transactionId(transaction)}/captures`, key, { amount: captureAmount })
}

function captureLoad({ port }: MeasuredServer, bodyOf: Load['bodyOf']): Load {
  return { open: httpLoad({ port, status: 201 }), connections, streams: 1, bodyOf }
}

interface Sides {
  readonly postgres: PostgresServer
  readonly service: MeasuredServer
  readonly statements: readonly SentStatement[]
  /** A folder for files. */
  readonly place: string
}

async function measureSpread(sides: Sides, spread: Spread, extent: Extent) {
  const { postgres } = sides
  const { rounds, roundMs, warmUpMs, firstWarmUpMs } = extent
  const capture = apiContestant(sides, spread)
  const { requestsPerSecond } = await capture(firstWarmUpMs)
  // Connections keep plans that they made when tables were empty, such as scans of whole tables for foreign
  // keys. The server would analyse the tables by itself within a minute; pgbench gets the same with each
  // round.
  await postgres.sql('VACUUM ANALYZE', 'ours')
  const inRounds = (bench: (captures: number) => Promise<number>) => {
    // The number of captures in a round is estimated from the previous round.
    let rate = requestsPerSecond
    return async (): Promise<Partial<ApiMeasurement>> => {
      rate = await bench((rate * roundMs) / 1000)
      return { requestsPerSecond: rate }
    }
  }
  const contestants = [
    async (): Promise<Partial<ApiMeasurement>> => {
      await capture(warmUpMs)
      return capture(roundMs)
    },
    inRounds(pgbenchContestant(sides, spread)),
    inRounds(minimalContestant(sides, spread)),
  ]
  const [mine = [], yardstick = [], minimal = []] = await inTurn(contestants, rounds, contestant =>
    contestant(),
  )
  const figure = { figure: 'requestsPerSecond', unit: '/s', of: 'ratio' } as const
  const ofMinimal = `${spread.what}, of a minimal capture`
  const rows = [
    ...compareRounds([{ what: spread.what, ...figure, goal: { atLeast: 0.5 } }], mine, yardstick),
    ...compareRounds([{ what: ofMinimal, ...figure, goal: { atLeast: 0.4 } }], mine, minimal),
  ]
  return {
    rows: rows.map(row => ({ ...row, ...excuseOf(mine) })),
    measurements: {
      [`ours, ${spread.name}`]: mine,
      [`pgbench, ${spread.name}`]: yardstick,
      [`minimal, ${spread.name}`]: minimal,
    },
  }
}

function apiContestant({ postgres, service }: Sides, { name, first }: Spread) {
  let sent = 0
  const load = captureLoad(service, () => {
    sent += 1
    return captureRequest(first + (sent % transactions), `${name}-${sent}`)
  })
  return async (durationMs: number) => {
    const result = await measureApi(service, postgres, () => driveFlatOut(load, { durationMs }))
    // Captures are sent to the processor in the background; the remaining ones must not disturb the other
    // side.
    const left = 'SELECT count(*) FROM processor_instructions'
    await waitFor(
      'the captures to be sent to the processor',
      async () => (await postgres.sql(left, 'ours')) === '0',
      30_000,
    )
    return result
  }
}

function pgbenchContestant(sides: Sides, { name, merchants: owners, first }: Spread) {
  const { postgres, statements, place } = sides
  const known = {
    ...{ transactionId: transactionId(tapped.number), merchantId: merchantId(tapped.merchant), appId },
    keyHash: hashIdempotencyKey(tappedKey),
  }
  const script = join(place, `${name}.sql`)
  writeFileSync(script, captureScript(statements, known, owners))
  return contestantOf(sides, {
    ...{ script, database: 'yardstick', owners, first },
    seed: fresh => seedTransactions(postgres, 'yardstick', fresh),
  })
}

function minimalContestant(sides: Sides, { name, merchants: owners, first }: Spread) {
  const script = join(sides.place, `minimal-${name}.sql`)
  writeFileSync(script, minimalCaptureScript(owners))
  return contestantOf(sides, {
    ...{ script, database: 'minimal', owners, first },
    seed: fresh => seedMinimalTransactions(sides.postgres, 'minimal', fresh),
  })
}

interface PgbenchContestant {
  readonly script: string
  readonly database: string
  readonly owners: number
  readonly first: number
  /** Inserts transactions that can be captured. */
  readonly seed: (transactions: NumberedTransactions) => Promise<void>
}

/** Returns a function that makes about that number of captures, and resolves with captures/s. */
function contestantOf({ postgres, place }: Sides, contestant: PgbenchContestant) {
  const { script, database, owners, first, seed } = contestant
  let next = firstOfPgbench + first
  return async (captures: number): Promise<number> => {
    const each = 2 * edgeEach + Math.max(minEach, Math.ceil(captures / connections))
    const fresh: NumberedTransactions = { from: next, count: each * connections, merchants: owners }
    await seed(fresh)
    next += fresh.count
    const url = postgres.urlOf(database)
    return runPgbench({ url, script, place, connections, first: fresh.from, each, edgeEach })
  }
}
