import type { Tx } from './storage.ts'

/**
 * The methods of the query planner to switch off for statements on large tables. Without statistics, as after
 * a restore, the planner expects few rows, and chooses plans whose time grows with the square of the number
 * of rows.
 */
const excluded = {
  /** Hash joins and merge joins, which read each table once, remain. */
  'whole tables': ['enable_nestloop'],
  /** Scans of an index from the start of the part remain. */
  'parts of tables': ['enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin'],
} as const

/** Runs `work` with the planner's methods for reads of this kind. The settings end with `work`. */
export async function planFor<T>(tx: Tx, reads: keyof typeof excluded, work: () => Promise<T>): Promise<T> {
  for (const method of excluded[reads]) await tx.query(`SET LOCAL ${method} = off`)
  const result = await work()
  for (const method of excluded[reads]) await tx.query(`SET LOCAL ${method} TO DEFAULT`)
  return result
}
