import type { TimeRange } from '../domain/transaction/transaction.ts'
import { type SqlValue, type Tx, toDate } from './storage.ts'
import type { RecordOf, Row, Table } from './table.ts'

/**
 * Which page of a list to read. Without cursors, the page begins with the newest element. `before` selects
 * the elements older than the one with this id, the newest first. `after` selects the newer ones, the oldest
 * first. With both, the elements between the two are selected.
 */
export interface PageQuery {
  readonly limit: number
  readonly after?: string | null
  readonly before?: string | null
  /** The app that reads a list of a merchant. The page is empty if the app has no access to the merchant. */
  readonly appId?: string
  /** The order, if not the one that follows from the cursors. */
  readonly order?: 'newest' | 'oldest' | null
}

export type ListPage<Item> =
  | { readonly items: readonly Item[] }
  /** No element of the list has the id of this cursor. */
  | { readonly unknownCursor: 'after' | 'before' }

/** The parts of the SQL that reads a list of one kind, and the conversion of a row. */
export interface ListSource<Row, Item> {
  readonly columns: string
  readonly from: string
  /** The column with the id of the list's owner; `id` is the column with the ids that cursors name. */
  readonly owner: string
  readonly id: string
  /** The column that orders the list, or several columns, as in ORDER BY. */
  readonly position: string | readonly string[]
  /** Conditions that each element must meet, besides the owner. */
  readonly conditions?: readonly SqlCondition[]
  readonly item: (row: Row) => Item
}

export function listOfMerchant<Defined extends ConstructorParameters<typeof Table>[1]>(
  table: Table<Defined>,
): ListSource<Row, RecordOf<Defined>> {
  return {
    columns: table.columns,
    from: table.name,
    owner: 'merchant_id',
    id: 'id',
    position: 'position',
    item: table.read,
  }
}

/** `parameter` adds a value to the statement and returns its placeholder, such as `$3`. */
export type SqlCondition = (parameter: (value: SqlValue) => string) => string

export function createdIn(column: string, { fromMs, toMs }: TimeRange): readonly SqlCondition[] {
  return [
    ...(fromMs === null ? [] : [(of: Parameter) => `${column} >= ${of(toDate(fromMs))}`]),
    ...(toMs === null ? [] : [(of: Parameter) => `${column} < ${of(toDate(toMs))}`]),
  ]
}

type Parameter = Parameters<SqlCondition>[0]

/** The value that each of these columns must have. Undefined and null do not filter. */
type ListFilters = Readonly<Record<string, SqlValue | undefined>>

/**
 * Reads a page of a list. The positions in an owner's list follow the order of commits, so that paging in
 * either direction returns each element once, even if elements are inserted meanwhile.
 */
export async function listPage<Row, Item>(
  tx: Tx,
  source: ListSource<Row, Item>,
  owner: string,
  page: PageQuery,
  filters: ListFilters = {},
): Promise<ListPage<Item>> {
  const params: SqlValue[] = [owner]
  const parameter = (value: SqlValue) => `$${params.push(value)}`
  const conditions = [`${source.owner} = $1`]
  for (const cursor of cursors) {
    const id = page[cursor] ?? null
    if (id === null) continue
    const place = selectPosition(source, parameter(id))
    conditions.push(`(${positionColumns(source).join(', ')}) ${comparisons[cursor]} (${place})`)
  }
  for (const [column, value] of Object.entries(filters)) {
    if (value === undefined || value === null) continue
    conditions.push(`${column} = ${parameter(value)}`)
  }
  conditions.push(...(source.conditions ?? []).map(condition => condition(parameter)))
  if (page.appId !== undefined) {
    const app = parameter(page.appId)
    conditions.push(`EXISTS (SELECT FROM merchant_apps WHERE merchant_id = $1 AND app_id = ${app})`)
  }
  const order = page.order ?? ((page.after ?? null) === null ? 'newest' : 'oldest')
  const direction = order === 'newest' ? 'DESC' : 'ASC'
  const limit = parameter(page.limit)
  const rows = await tx.query<Row>(
    `SELECT ${source.columns} FROM ${source.from} WHERE ${conditions.join(' AND ')}
     ORDER BY ${positionColumns(source)
       .map(column => `${column} ${direction}`)
       .join(', ')} LIMIT ${limit}`,
    params,
  )
  // Only an empty page needs this check, because an unknown cursor selects nothing.
  const unknownCursor = rows.length === 0 ? await findUnknownCursor(tx, source, owner, page) : undefined
  return unknownCursor === undefined ? { items: rows.map(source.item) } : { unknownCursor }
}

const cursors = ['before', 'after'] as const
const comparisons = { before: '<', after: '>' } as const

type CursorSource = Pick<ListSource<unknown, unknown>, 'from' | 'owner' | 'id' | 'position'>

function positionColumns({ position }: Pick<CursorSource, 'position'>): readonly string[] {
  return [position].flat()
}

function selectPosition(place: CursorSource, parameter: string): string {
  const { from, owner, id } = place
  return `SELECT ${positionColumns(place).join(', ')} FROM ${from} WHERE ${owner} = $1 AND ${id} = ${parameter}`
}

async function findUnknownCursor(
  tx: Tx,
  place: CursorSource,
  owner: string,
  page: PageQuery,
): Promise<(typeof cursors)[number] | undefined> {
  for (const cursor of cursors) {
    const id = page[cursor] ?? null
    if (id === null) continue
    const found = await tx.query(selectPosition(place, '$2'), [owner, id])
    if (found.length === 0) return cursor
  }
  return undefined
}
