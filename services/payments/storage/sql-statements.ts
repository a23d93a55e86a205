export function toDate(ms: number): Date {
  return new Date(ms)
}

/**
 * Returns the expression of the position of a list's element, for walking the list part by part. The
 * parameter is the element's id; null is the position before the first one. It is one value for the
 * statement, so that the index of the list is read from there.
 */
export function positionOf(table: string, parameter: string): string {
  return `coalesce((SELECT position FROM ${table} WHERE id = ${parameter}::uuid), -1)`
}

/** The id before all others. */
export const firstId = '00000000-0000-0000-0000-000000000000'

/**
 * Ends a subquery of EXISTS. PostgreSQL then executes it for each row, through an index, and does not change
 * it into a join: without statistics, as after a restore, the join reads the whole table for each row. An
 * ORDER BY before it names the columns of the index, where another one looks as good.
 */
export const byIndex = 'OFFSET 0'
