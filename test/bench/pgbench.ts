import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findPostgresProgram } from '../support/postgres-server.ts'
import { idInSql, merchantIdInSql, transactionIdInSql } from './payments-books.ts'
import { onServerCore } from './servers.ts'
import type { SentStatement, SentValue } from './statement-tap.ts'

/** The values that differ between captures; all other parts of their statements are the same. */
export interface CaptureValues {
  readonly transactionId: string
  readonly merchantId: string
  readonly appId: string
  readonly keyHash: Buffer
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
/** The name of a lock is a 64-bit hash; no amount here is close to it. */
const lockId = /^-?\d{16,}$/

/**
 * Returns a script for pgbench with the statements of one capture, in as many round trips, for the
 * transaction with the number `:first + :client_id * :each + :done` and its merchant.
 *
 * @param merchants see NumberedTransactions
 */
export function captureScript(
  statements: readonly SentStatement[],
  known: CaptureValues,
  merchants: number,
): string {
  const madeIds: string[] = []

  function expressionOf(value: SentValue): string {
    if (value === null) return 'NULL'
    if (typeof value !== 'string') {
      return value.equals(known.keyHash)
        ? `sha256((:t)::text::bytea)`
        : `'\\x${value.toString('hex')}'::bytea`
    }
    if (value === known.transactionId) return transactionIdInSql(':t')
    if (value === known.merchantId) return merchantIdInSql(`:t % ${merchants}`)
    if (lockId.test(value)) return 'hashtextextended((:t)::text, 0)'
    if (!uuid.test(value) || value === known.appId) return literal(value)
    if (!madeIds.includes(value)) madeIds.push(value)
    return idInSql(`00000000-0000-7000-9${String(madeIds.indexOf(value)).padStart(3, '0')}-`, ':t')
  }

  const lines = ['\\set t :first + :client_id * :each + :done', '\\set done :done + 1']
  for (const trip of Map.groupBy(statements, ({ roundTrip }) => roundTrip).values()) {
    if (trip.length > 1) lines.push('\\startpipeline')
    for (const { sql, values } of trip) {
      lines.push(`${sql.replace(/\$(\d+)/g, (_, number) => expressionOf(values[number - 1] ?? null))};`)
    }
    if (trip.length > 1) lines.push('\\endpipeline')
  }
  return `${lines.join('\n')}\n`
}

/** A colon would begin the name of a variable. */
function literal(value: string): string {
  const escaped = value.replaceAll('\\', '\\\\').replaceAll("'", "''").replaceAll(':', '\\x3a')
  return `E'${escaped}'`
}

export interface PgbenchRun {
  readonly url: string
  /** The file of the script, and a folder for the output of pgbench. */
  readonly script: string
  readonly place: string
  readonly connections: number
  /** The number of the first transaction, and their number for each connection. */
  readonly first: number
  readonly each: number
  /**
   * How many of those come before the measurement, during which all statements are planned, and how many
   * after it.
   */
  readonly edgeEach: number
}

/** Runs the script on all connections, with prepared statements, as the service does; returns captures/s. */
export async function runPgbench(run: PgbenchRun): Promise<number> {
  const { url, script, place, connections, first, each } = run
  const { hostname, port, username, pathname } = new URL(url)
  const log = join(place, 'pgbench')
  const [command, args] = onServerCore(findPostgresProgram('pgbench') ?? 'pgbench', [
    ...['-n', '-M', 'prepared', '-f', script, '-c', `${connections}`, '-j', '1', '-t', `${each}`],
    ...['-D', `first=${first}`, '-D', `each=${each}`, '-D', 'done=0', '-l', `--log-prefix=${log}`],
    ...['-h', hostname, '-p', port, '-U', username, pathname.slice(1)],
  ])
  const { stderr } = await promisify(execFile)(command, args)
  const [name = ''] = readdirSync(place).filter(file => file.startsWith('pgbench.'))
  const ends = readLog(readFileSync(join(place, name), 'utf8'))
  rmSync(join(place, name))
  if (ends.length !== connections * each) {
    throw new Error(
      `pgbench made ${ends.length} of ${connections * each} captures: ${stderr.slice(0, 2_000)}`,
    )
  }
  return rateOf(ends, run)
}

/**
 * Returns the end of each capture, in milliseconds. A line is `client number micros script seconds micros`.
 */
function readLog(log: string): readonly number[] {
  const lines = log.trimEnd().split('\n')
  return lines.map(line => {
    const [, , , , seconds = 0, micros = 0] = line.split(' ').map(Number)
    return seconds * 1000 + micros / 1000
  })
}

/**
 * Returns the rate while all connections are busy: without the first captures, and without as many at the
 * end.
 */
function rateOf(endsMs: readonly number[], { connections, edgeEach }: PgbenchRun): number {
  const edge = connections * edgeEach
  const measured = endsMs.toSorted((a, b) => a - b).slice(edge - 1, -edge)
  return ((measured.length - 1) * 1000) / ((measured.at(-1) ?? 0) - (measured[0] ?? 0))
}
