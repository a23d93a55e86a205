import type { SqlValue, Storage, Tx } from '../storage.ts'

export interface ExplainedQuery {
  readonly sql: string
  /** The number of rows that scans of tables and indexes read, including those that a filter removed. */
  readonly rowsRead: number
  /** The number of pages of 8 KiB that the statement and its triggers read, from the cache or the disk. */
  readonly pages: number
  /** The tables that the statement read with a sequential scan. */
  readonly scannedTables: readonly string[]
}

interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Rows Removed by Index Recheck'?: number
  readonly 'Shared Hit Blocks'?: number
  readonly 'Shared Read Blocks'?: number
  readonly Plans?: readonly PlanNode[]
}

interface ExplainRow {
  readonly 'QUERY PLAN': readonly { readonly Plan: PlanNode }[]
}

/**
 * Runs `work` in a transaction that is rolled back. Resolves with what each query read.
 *
 * @param earlierUses how often each prepared statement was planned before. After five times, PostgreSQL may
 *   choose one plan for all values of the parameters.
 */
export async function explainQueries(
  storage: Storage,
  earlierUses: number,
  work: (tx: Tx) => Promise<unknown>,
): Promise<readonly ExplainedQuery[]> {
  const queries: ExplainedQuery[] = []
  const rollback = new Error('rolled back')
  await storage
    .transaction(async tx => {
      queries.length = 0
      let previous: Promise<unknown> = Promise.resolve()
      await work({
        ...tx,
        // Runs the queries one after another, because all use the same name of a prepared statement.
        query<Row>(sql: string, params: readonly SqlValue[] = []): Promise<readonly Row[]> {
          const rows = previous.then(async () => {
            if (!sql.startsWith('SET ')) queries.push(await explain(tx, earlierUses, sql, params))
            return tx.query<Row>(sql, params)
          })
          previous = rows
          return rows
        },
      })
      throw rollback
    })
    .catch((error: unknown) => {
      if (error !== rollback) throw error
    })
  return queries
}

async function explain(
  tx: Tx,
  earlierUses: number,
  sql: string,
  params: readonly SqlValue[],
): Promise<ExplainedQuery> {
  const execute = `EXECUTE explained${params.length === 0 ? '' : `(${params.map(literal).join(', ')})`}`
  await tx.script(`SAVEPOINT explained; PREPARE explained AS ${sql}`)
  await tx.script(`EXPLAIN ${execute};`.repeat(earlierUses))
  const [row] = await tx.query<ExplainRow>(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${execute}`)
  await tx.script('DEALLOCATE explained; ROLLBACK TO SAVEPOINT explained')
  const plan = row?.['QUERY PLAN'][0]?.Plan
  if (plan === undefined) throw new Error(`no plan of ${sql}`)
  const scans = nodesOf(plan).filter(node => / Scan$/.test(node['Node Type']))
  return {
    sql,
    rowsRead: scans.reduce((sum, node) => sum + rowsOf(node), 0),
    pages: (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0),
    scannedTables: scans
      .filter(node => node['Node Type'] === 'Seq Scan')
      .map(node => node['Relation Name'] ?? ''),
  }
}

function nodesOf(node: PlanNode): readonly PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)]
}

function rowsOf(node: PlanNode): number {
  const removed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0)
  return (node['Actual Rows'] + removed) * node['Actual Loops']
}

function literal(value: SqlValue): string {
  if (value === null) return 'NULL'
  if (value instanceof Date) return `'${value.toISOString()}'`
  if (value instanceof Uint8Array) return `'\\x${Buffer.from(value).toString('hex')}'`
  const text = Array.isArray(value) ? `{${value.map(item => JSON.stringify(item)).join(',')}}` : String(value)
  return `'${text.replaceAll("'", "''")}'`
}
