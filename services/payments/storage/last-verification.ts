import type { BookFinding } from '../domain/ledger/verify.ts'
import { type Tx, toDate } from './storage.ts'

/** The result of the last proof of the books. */
export interface StoredVerification {
  readonly beganMs: number
  readonly endedMs: number
  /** The number of replayed records of each kind. */
  readonly records: Readonly<Record<string, number>>
  /** The number of inconsistencies. */
  readonly findings: number
  /** The first inconsistencies. */
  readonly shown: readonly BookFinding[]
}

/** Replaces the stored result, unless that of a proof that ended later is stored. */
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

/** Returns the stored result; undefined if no proof has ended. */
export async function findLastVerification(tx: Tx): Promise<StoredVerification | undefined> {
  const [row] = await tx.query<VerificationRow>(
    'SELECT began, ended, records, findings, shown FROM last_verification',
  )
  if (row === undefined) return undefined
  const { began, ended, records, findings, shown } = row
  return { beganMs: began.getTime(), endedMs: ended.getTime(), records, findings: Number(findings), shown }
}
