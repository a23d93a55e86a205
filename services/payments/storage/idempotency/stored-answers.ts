import type { AnswerStore, KeptAnswer } from '../../processor/answer-store.ts'
import type { AuthorisationAnswer } from '../../processor/processor.ts'
import { onlyRow, type Storage, type Tx, toDate } from '../storage.ts'

interface AnswerRow {
  readonly answer: AuthorisationAnswer
  readonly cancelled: boolean
}

const insert = `INSERT INTO test_processor_answers AS a (operation_id, approved, answer, created, cancelled)
  VALUES ($1, $2, $3, $4, $5) ON CONFLICT (operation_id) DO UPDATE
  SET cancelled = coalesce(a.cancelled, excluded.cancelled)
  RETURNING a.answer, a.cancelled IS NOT NULL AS cancelled`

async function put(
  tx: Tx,
  operationId: string,
  answer: AuthorisationAnswer,
  { nowMs, cancelled }: { readonly nowMs: number; readonly cancelled: boolean },
): Promise<KeptAnswer> {
  const now = toDate(nowMs)
  const values = [operationId, answer.approved, JSON.stringify(answer), now, cancelled ? now : null]
  return onlyRow(await tx.query<AnswerRow>(insert, values))
}

/**
 * Creates a store of the test processor's answers in the payments database. The answers contain no card
 * number and no verification code.
 */
export function createStoredAnswers(storage: Storage): AnswerStore {
  return {
    keep: (operationId, answer, nowMs) =>
      storage.transaction(tx => put(tx, operationId, answer, { nowMs, cancelled: false })),
    cancel: (operationId, declined, nowMs) =>
      storage.transaction(tx => put(tx, operationId, declined, { nowMs, cancelled: true })),
  }
}
