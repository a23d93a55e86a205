import type { BookFinding } from '../domain/ledger/verify.ts'
import { type Tx, toDate } from './storage.ts'

export interface StoredVerification {
  readonly beganMs: number
  readonly endedMs: number
  readonly records: Readonly<Record<string, number>>
  readonly findings: number
  /** The first inconsistencies, for display. */
  readonly shown: readonly BookFinding[]
}

/** Replaces the previous result, unless that verification ended later. */
export async function storeVerification(tx: Tx, result: StoredVerification): Promise<void> {
  await tx.query(
    `INSERT INTO last_verification (began, ended, records, findings, shown) VALUES ($1, $2, $3, $4, $5)
     ON CONFLICT (only_row) DO UPDATE SET (began, ended, records, findings, shown) =
       (excluded.began, excluded.ended, excluded.records, excluded.findings, excluded.shown)
     WHERE last_verification.ended <= excluded.ended`,
    [
      toDate(result.beganMs),
      toDate(result.endedMs),
      JSON.stringify(result.records),
      result.findings,
      JSON.stringify(result.shown),
    ],
  )
}

interface VerificationRow {
  readonly began: Date
  readonly ended: Date
  readonly records: StoredVerification['records']
  readonly findings: bigint
  readonly shown: StoredVerification['shown']
}

export async function findLastVerification(tx: Tx): Promise<StoredVerification | undefined> {
  const [row] = await tx.query<VerificationRow>(
    'SELECT began, ended, records, findings, shown FROM last_verification',
  )
  if (row === undefined) return undefined
  const { began, ended, records, findings, shown } = row
  return { beganMs: began.getTime(), endedMs: ended.getTime(), records, findings: Number(findings), shown }
}
