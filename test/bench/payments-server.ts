import { join } from 'node:path'
import { freePorts } from '../support/free-ports.ts'
import type { PostgresServer } from '../support/postgres-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'
import type { LoadResult } from './load/load-connection.ts'
import type { Measurement } from './measure.ts'
import { apiKey } from './payments-books.ts'
import { latencyFigures } from './percentiles.ts'
import { cpuMicros, machineMicros, rssMiB } from './process-usage.ts'
import { fillCache, fromCache, type MeasuredServer, measured, startOnServerCore } from './servers.ts'

const main = join(root, 'services/payments/main.ts')

/** Starts the payments service as it is delivered, with this database, whose schema it migrates. */
export async function startPaymentsService(
  databaseUrl: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<MeasuredServer> {
  await fillCache([main], 'PORT')
  const place = temporaryFolder('bench')
  const [port = 0, debugPort = 0] = await freePorts(2)
  const program = startOnServerCore([main], {
    ...fromCache,
    DATABASE_URL: databaseUrl,
    MAX_CAPTURES: '10000',
    API_CALLS_PER_KEY: '10000000',
    API_CALLS_PER_ADDRESS: '10000000',
    STATE_DIR: place,
    HOST: '127.0.0.1',
    PORT: `${port}`,
    DEBUG_HOST: '127.0.0.1',
    DEBUG_PORT: `${debugPort}`,
    DRAIN_DELAY: '0s',
    DRAIN_TIMEOUT: '1s',
    ...settings,
  })
  const server = measured('ours', program, port, port)
  const ended = () => program.process.exitCode !== null || program.process.signalCode !== null
  try {
    await waitFor('the service to be ready', async () => ended() || (await isReady(port)), 20_000)
    if (ended()) throw new Error(`the service did not start; output: ${program.output()}`)
  } catch (error) {
    await server.end()
    throw error
  }
  return server
}

async function isReady(port: number): Promise<boolean> {
  return (await fetch(`http://127.0.0.1:${port}/readyz`)).ok
}

const authorization = `Basic ${Buffer.from(`:${apiKey}`).toString('base64')}`

/** Returns a complete request as bytes. */
export function getRequest(path: string): Buffer {
  return Buffer.from(`GET ${path} HTTP/1.1\r\nhost: bench\r\nauthorization: ${authorization}\r\n\r\n`)
}

/** Returns a request with an idempotency key. */
export function postRequest(path: string, idempotencyKey: string, body: object): Buffer {
  const json = JSON.stringify(body)
  const head = [
    ...[`POST ${path} HTTP/1.1`, 'host: bench', `authorization: ${authorization}`],
    ...[`idempotency-key: ${idempotencyKey}`, 'content-type: application/json'],
    `content-length: ${Buffer.byteLength(json)}`,
  ]
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${json}`)
}

export type ApiMeasurement = Omit<Measurement, 'decisionsPerSecond' | 'redisCommands'> & {
  readonly requestsPerSecond: number
  /** The number of processors that other programs used. */
  readonly othersBusy: number
}

/**
 * Runs the load and returns its cost; the other core has the database and the load.
 *
 * @throws Error when an answer was not the expected one
 */
export async function measureApi(
  server: MeasuredServer,
  database: PostgresServer,
  drive: () => Promise<LoadResult>,
): Promise<ApiMeasurement> {
  const before = await usage(server, database)
  const { calls, failed, seconds, latenciesMs, loadCpuMicros } = await drive()
  // Read at once, before the memory changes.
  const rss = rssMiB(server.pid)
  const after = await usage(server, database)
  if (failed > 0) throw new Error(`${failed} of ${calls} answers were not as expected`)
  const serverMicros = after.serverMicros - before.serverMicros
  const databaseMicros = after.databaseMicros - before.databaseMicros
  const machine = after.machineMicros - before.machineMicros
  return {
    calls,
    cpuMicros: serverMicros / calls,
    requestsPerSecond: calls / seconds,
    ...latencyFigures(latenciesMs),
    rssMiB: rss,
    gcShare: (after.gcMs - before.gcMs) / 1000 / seconds,
    loadCpuMicros: loadCpuMicros / calls,
    serverBusy: serverMicros / 1e6 / seconds,
    otherCoreBusy: (databaseMicros + loadCpuMicros) / 1e6 / seconds,
    othersBusy: (machine - serverMicros - databaseMicros - loadCpuMicros) / 1e6 / seconds,
  }
}

async function usage(server: MeasuredServer, database: PostgresServer) {
  return {
    serverMicros: cpuMicros(server.pid),
    databaseMicros: cpuMicros(database.pid),
    machineMicros: machineMicros(),
    gcMs: (await server.gcMs()) ?? 0,
  }
}

/** Above this, times mostly reflect other programs on the machine. */
const maxOthersBusy = 0.25

/**
 * Returns the reason why rates and latencies of these rounds are not judged; none if other programs were idle
 * in one of them.
 */
export function excuseOf(rounds: readonly Partial<ApiMeasurement>[]): { readonly excuse?: string } {
  const busy = Math.min(...rounds.map(({ othersBusy = 0 }) => othersBusy))
  return busy > maxOthersBusy ? { excuse: `other programs had ${busy.toFixed(1)} processors` } : {}
}
