/** `INSERT` of one row: the parameters are the columns' values in their order. */
export function insertInto(table: string, columns: readonly string[]): string {
  return `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${parameters(columns)})`
}

/**
 * The same for an element of a list, at the next position of its owner, which is the first column. The owner
 * is locked from then on, so this comes late in a transaction. Refused when the owner has no list.
 */
export function insertAtNextPosition(table: string, columns: readonly string[]): string {
  return `WITH place AS (UPDATE positions SET last = last + 1 WHERE owner = $1 RETURNING last)
    INSERT INTO ${table} (${columns.join(', ')}, position)
    VALUES (${parameters(columns)}, (SELECT last FROM place))`
}

function parameters(columns: readonly string[]): string {
  return columns.map((_, index) => `$${index + 1}`).join(', ')
}

export function toDate(ms: number): Date {
  return new Date(ms)
}

export function toDateOrNull(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms)
}

export function toMsOrNull(date: Date | null): number | null {
  return date === null ? null : date.getTime()
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
