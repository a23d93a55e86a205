import type { JsonObject } from '@tollway/chassis/json.ts'
import { type PageInput, pageReader, parsePage } from '../domain/input/page.ts'
import type { Reader } from '../domain/input/record.ts'
import { accept, mapResult, type Result } from '../domain/rejections.ts'
import type { OwnListRequest } from '../operations/lists.ts'
import type { Tx } from '../storage/storage.ts'
import { answerList } from './answer.ts'
import type { AppCall, AppEndpoint, Example, QueryParameter } from './endpoint.ts'

/** The maximum number of records of an export, whose page is in memory. */
const maxExportItems = 1000n

type ExportEndpoint<Filter, Item> = Omit<ListEndpoint<Filter, Item>, 'item' | 'present'> & {
  /** A CSV document of these records. */
  readonly write: (items: readonly Item[]) => string
}

/** GET of a part of a list as CSV. */
export function exportEndpoint<Filter, Item>(
  list: ExportEndpoint<Filter, Item>,
): AppEndpoint<PageInput<Filter>> {
  const { path, operationId, tag, summary, filter, write } = list
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
      query: listParameters(pageReader(filter, maxExportItems).schema),
      produces: 'text/csv',
      answers: { 200: { schema: { type: 'string' }, example: write([]) } },
    },
    parse: ({ query }) => parsePage(query, filter, maxExportItems),
    async act(tx, call) {
      const items = await readItems(list, tx, call)
      return items.ok ? accept({ status: 200, body: write(items.value), type: 'text/csv' }) : items
    },
  }
}

interface ListEndpoint<Filter, Item> {
  readonly path: string
  readonly operationId: string
  readonly tag: string
  readonly summary: string
  readonly filter: Reader<Filter>
  readonly item: Example
  /** The merchant, or the identity, whose list it is. */
  readonly owner: (params: AppCall['params'], filter: Filter) => string
  readonly list: (tx: Tx, request: OwnListRequest<Filter>) => Promise<Result<readonly Item[]>>
  readonly present: (item: Item) => JsonObject
}

/** GET of a part of a list. */
export function listEndpoint<Filter, Item>(list: ListEndpoint<Filter, Item>): AppEndpoint<PageInput<Filter>> {
  const { path, operationId, tag, summary, filter, item } = list
  return {
    kind: 'app',
    method: 'GET',
    path,
    document: {
      operationId,
      tag,
      summary,
      query: listParameters(pageReader(filter).schema),
      answers: { 200: { schema: { type: 'array', items: item.schema }, example: [item.example] } },
    },
    parse: ({ query }) => parsePage(query, filter),
    async act(tx, call) {
      return mapResult(await readItems(list, tx, call), items => answerList(items.map(list.present)))
    },
  }
}

/** Reads the part of the list that the call's query selects. */
async function readItems<Filter, Item>(
  { owner, list }: Pick<ListEndpoint<Filter, Item>, 'owner' | 'list'>,
  tx: Tx,
  { app, params, input }: AppCall<PageInput<Filter>>,
): Promise<Result<readonly Item[]>> {
  return await list(tx, { app, owner: owner(params, input.filter), page: input })
}

/** The words of a form for true and false. */
const flagSchema = { enum: ['yes', 'no', 'y', 'n', 'true', 'false', '1', '0'] }

/** Returns the parameters of a query: `filter[created][from]` for the field `from` of `created` of `filter`. */
function listParameters(schema: JsonObject, name = '', isRequired = false): readonly QueryParameter[] {
  const { properties, required = [], description = '', ...own } = schema as QuerySchema
  if (properties === undefined) {
    const style = own.type === 'object' && { style: 'deepObject' as const }
    return [
      {
        name,
        description,
        required: isRequired,
        ...style,
        schema: own.type === 'boolean' ? flagSchema : own,
      },
    ]
  }
  return Object.entries(properties).flatMap(([field, property]) =>
    listParameters(
      property.anyOf?.[0] ?? property,
      name === '' ? field : `${name}[${field}]`,
      required.includes(field),
    ),
  )
}

type QuerySchema = JsonObject & {
  readonly type?: string
  readonly description?: string
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, JsonObject & { readonly anyOf?: readonly JsonObject[] }>>
}
