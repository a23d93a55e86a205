import type { TimeRange } from '../domain/transaction/transaction.ts'
import { type SqlValue, type Tx, toDate } from './storage.ts'
import type { RecordOf, Row, Table } from './table.ts'

/**
 * The query of a page. Without cursors, it begins with the newest element. `before` selects elements older
 * than that id; `after` selects newer ones and reverses the order. Both select the elements between them.
 */
export interface PageQuery {
  /** The maximum number of elements. */
  readonly limit: number
  readonly after?: string | null
  readonly before?: string | null
  /** The app that reads a merchant's list; the list is empty if the app does not have the merchant. */
  readonly appId?: string
  /** The order, where the caller wants another than the cursors give. */
  readonly order?: 'newest' | 'oldest' | null
}

export type ListPage<Item> =
  | { readonly items: readonly Item[] }
  /** The cursor is not an element of this list. */
  | { readonly unknownCursor: 'after' | 'before' }

/** How the elements of one kind of list are read. */
export interface ListSource<Row, Item> {
  /** The columns of the SELECT. */
  readonly columns: string
  /** A table, or a join. */
  readonly from: string
  /** The columns of the list's owner and of the id that is the cursor. */
  readonly owner: string
  readonly id: string
  /** The column that orders the list, or several of which the first decides. */
  readonly position: string | readonly string[]
  /** Additional conditions of each element. */
  readonly conditions?: readonly SqlCondition[]
  readonly item: (row: Row) => Item
}

/** Returns the list of a merchant's records. */
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

/** A condition in SQL. `parameter` adds a value and returns its placeholder. */
export type SqlCondition = (parameter: (value: SqlValue) => string) => string

/** Returns the conditions of a range of time on a column. */
export function createdIn(column: string, { fromMs, toMs }: TimeRange): readonly SqlCondition[] {
  return [
    ...(fromMs === null ? [] : [(of: Parameter) => `${column} >= ${of(toDate(fromMs))}`]),
    ...(toMs === null ? [] : [(of: Parameter) => `${column} < ${of(toDate(toMs))}`]),
  ]
}

type Parameter = Parameters<SqlCondition>[0]

/** Columns and the values that they must have; undefined and null filter nothing. */
type ListFilters = Readonly<Record<string, SqlValue | undefined>>

/**
 * Reads a page. Positions follow the order of commits of one owner, so that paging in any direction
 * returns each element once, also while elements are inserted.
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
  // An unknown cursor selects nothing, so only an empty page needs the check.
  const unknownCursor = rows.length === 0 ? await findUnknownCursor(tx, source, owner, page) : undefined
  return unknownCursor === undefined ? { items: rows.map(source.item) } : { unknownCursor }
}

const cursors = ['before', 'after'] as const
const comparisons = { before: '<', after: '>' } as const

type CursorSource = Pick<ListSource<unknown, unknown>, 'from' | 'owner' | 'id' | 'position'>

function positionColumns({ position }: Pick<CursorSource, 'position'>): readonly string[] {
  return [position].flat()
}

/** Selects the position of the owner's element whose id is that parameter. */
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
