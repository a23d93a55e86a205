import { maxPageItems, parsePage } from '../domain/input/page.ts'
import type { Reader } from '../domain/input/record.ts'
import type { JsonObject } from '../domain/json.ts'
import { isRefused } from '../domain/refusals.ts'
import type { ListRequest } from '../operations/lists.ts'
import type { Outcome } from '../operations/operation.ts'
import type { Tx } from '../storage/storage.ts'
import { answerList } from './answer.ts'
import type { AppCall, AppEndpoint, Example, QueryParameter } from './endpoint.ts'

const maxLimit = Number(maxPageItems)
const cursor = {
  type: 'string',
  pattern: '^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8}0{16})?$',
  description: 'An id, or a time as seconds since 1970 in 8 hex digits and 16 zeros',
}

/** The parameters of every list (the specification's pagination). */
const pagination = (maxItems: number): readonly QueryParameter[] => [
  {
    name: 'limit',
    description: 'The most elements that come.',
    required: true,
    schema: { type: 'integer', minimum: 1, maximum: maxItems },
  },
  {
    name: 'before',
    description: 'The last id received: what is older comes.',
    required: false,
    schema: cursor,
  },
  {
    name: 'after',
    description: 'Returns the entries that are newer than this one, the oldest first.',
    required: false,
    schema: cursor,
  },
  {
    name: 'sort[created]',
    description:
      'Another order than the cursors give: 1 or asc for the oldest first, -1 or desc for the newest.',
    required: false,
    schema: { enum: ['1', '-1', 'asc', 'desc'] },
  },
]

/** The most records of one export: a page of it is made in memory. */
export const maxExportItems = 1000

type ExportEndpoint<Filter, Item> = Omit<ListEndpoint<Filter, Item>, 'item' | 'present'> & {
  /** A CSV document of these records. */
  readonly write: (items: readonly Item[]) => string
}

/** GET of a part of a list as CSV. */
export function exportEndpoint<Filter, Item>(list: ExportEndpoint<Filter, Item>): AppEndpoint {
  const { path, operationId, tag, summary, filters = [], write } = list
  return {
    kind: 'app',
    method: 'GET',
    path,
    document: {
      operationId,
      tag,
      summary,
      description:
        'RFC 4180 in UTF-8, with a header. Text that a spreadsheet program takes for a formula has an apostrophe in ' +
        'front. For what follows, pass the last id as `before`.',
      query: [...pagination(maxExportItems), ...filters],
      produces: 'text/csv',
      answers: { 200: { schema: { type: 'string' }, example: write([]) } },
    },
    async act(tx, call) {
      const items = await readItems(list, { tx, call, maxItems: maxExportItems })
      return isRefused(items) ? items : { status: 200, body: write(items), type: 'text/csv' }
    },
  }
}

export interface ListEndpoint<Filter, Item> {
  readonly path: string
  readonly operationId: string
  readonly tag: string
  readonly summary: string
  readonly filter: Reader<Filter>
  readonly filters?: readonly QueryParameter[]
  readonly item: Example
  /** The merchant, or the identity, whose list it is. */
  readonly owner: (call: AppCall, filter: Filter) => string
  readonly list: (tx: Tx, request: ListRequest<Filter>) => Outcome<readonly Item[]>
  readonly present: (item: Item) => JsonObject
}

/** GET of a part of a list. */
export function listEndpoint<Filter, Item>(list: ListEndpoint<Filter, Item>): AppEndpoint {
  const { path, operationId, tag, summary, filters = [], item } = list
  return {
    kind: 'app',
    method: 'GET',
    path,
    document: {
      operationId,
      tag,
      summary,
      query: [...pagination(maxLimit), ...filters],
      answers: { 200: { schema: { type: 'array', items: item.schema }, example: [item.example] } },
    },
    async act(tx, call) {
      const items = await readItems(list, { tx, call, maxItems: maxLimit })
      return isRefused(items) ? items : answerList(items.map(list.present))
    },
  }
}

interface ListCall {
  readonly tx: Tx
  readonly call: AppCall
  /** The highest `limit`. */
  readonly maxItems: number
}

/** Reads the part of the list that the call's query selects. */
async function readItems<Filter, Item>(
  list: Pick<ListEndpoint<Filter, Item>, 'filter' | 'owner' | 'list'>,
  { tx, call, maxItems }: ListCall,
): Outcome<readonly Item[]> {
  const page = parsePage(call.query, list.filter, BigInt(maxItems))
  if (isRefused(page)) return page
  return await list.list(tx, { app: call.app, owner: list.owner(call, page.filter), page })
}
