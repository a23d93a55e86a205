import type { Tx } from './storage.ts'

/**
 * Plans for the two ways to read large tables. Without statistics, as after a restore, the planner expects
 * few rows everywhere, and chooses plans whose time grows with the square of the rows.
 */
const excluded = {
  /** Statements that read whole tables: a hash join or a merge join reads each table once. */
  'whole tables': ['enable_nestloop'],
  /** Statements that read a part of a table: they walk an index from the begin of the part. */
  'parts of tables': ['enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin'],
} as const

/** Runs statements with plans for such reads. Other statements of the transaction are planned as before. */
export async function planFor<T>(tx: Tx, reads: keyof typeof excluded, work: () => Promise<T>): Promise<T> {
  for (const method of excluded[reads]) await tx.query(`SET LOCAL ${method} = off`)
  const result = await work()
  for (const method of excluded[reads]) await tx.query(`SET LOCAL ${method} TO DEFAULT`)
  return result
}
