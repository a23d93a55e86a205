import type { SqlValue, Tx } from './storage.ts'

/**
 * A part of a list. Without cursors it begins with the newest. `before` gives what is older than the element of
 * that id; `after` gives what is newer, and turns the order around (the specification's pagination). With both,
 * it is what lies between them.
 */
export interface PageQuery {
  /** The most elements that come. */
  readonly limit: number
  readonly after?: string | null
  readonly before?: string | null
  /** The order, where the caller wants another than the cursors give. */
  readonly order?: 'newest' | 'oldest' | null
}

export type Page<Item> =
  | { readonly items: readonly Item[] }
  /** The cursor of that name is the id of no element of this list. */
  | { readonly unknownCursor: 'after' | 'before' }

/** How the elements of one kind of list are read. */
export interface ListSource<Row, Item> {
  /** What stands between SELECT and FROM. */
  readonly columns: string
  /** A table, or a join. */
  readonly from: string
  /** The columns of the list's owner, of the id that is the cursor, and of the position that orders it. */
  readonly owner: string
  readonly id: string
  readonly position: string
  readonly item: (row: Row) => Item
}

/** Columns and the values that they must have; undefined and null filter nothing. */
export type ListFilters = Readonly<Record<string, SqlValue | undefined>>

/**
 * Positions follow the order of commits within one owner, so walking a list by its cursors, in any direction,
 * shows each element once, whatever is inserted meanwhile.
 */
export async function listPage<Row, Item>(
  tx: Tx,
  source: ListSource<Row, Item>,
  owner: string,
  page: PageQuery,
  filters: ListFilters = {},
): Promise<Page<Item>> {
  const params: SqlValue[] = [owner]
  const conditions = [`${source.owner} = $1`]
  const add = (condition: string, value: SqlValue) => {
    params.push(value)
    conditions.push(`${condition} $${params.length}`)
  }
  for (const [name, comparison] of [
    ['before', '<'],
    ['after', '>'],
  ] as const) {
    const id = page[name] ?? null
    if (id === null) continue
    const position = await positionOf(tx, source, owner, id)
    if (position === undefined) return { unknownCursor: name }
    add(`${source.position} ${comparison}`, position)
  }
  for (const [column, value] of Object.entries(filters)) {
    if (value !== undefined && value !== null) add(`${column} =`, value)
  }
  const order = page.order ?? ((page.after ?? null) === null ? 'newest' : 'oldest')
  params.push(page.limit)
  const rows = await tx.query<Row>(
    `SELECT ${source.columns} FROM ${source.from} WHERE ${conditions.join(' AND ')}
     ORDER BY ${source.position} ${order === 'newest' ? 'DESC' : 'ASC'} LIMIT $${params.length}`,
    params,
  )
  return { items: rows.map(source.item) }
}

async function positionOf(
  tx: Tx,
  { from, owner, id, position }: Pick<ListSource<unknown, unknown>, 'from' | 'owner' | 'id' | 'position'>,
  ownerId: string,
  cursor: string,
): Promise<bigint | undefined> {
  const [row] = await tx.query<{ position: bigint }>(
    `SELECT ${position} AS position FROM ${from} WHERE ${owner} = $1 AND ${id} = $2`,
    [ownerId, cursor],
  )
  return row?.position
}
