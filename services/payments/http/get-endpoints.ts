import type { JsonObject } from '@tollway/chassis/json.ts'
import { type PageInput, pageReader, parsePage } from '../domain/input/page.ts'
import type { Reader } from '../domain/input/record.ts'
import type { App } from '../domain/merchant.ts'
import { accept, mapResult, type Result } from '../domain/rejections.ts'
import type { OwnListRequest } from '../operations/lists.ts'
import type { Tx } from '../storage/storage.ts'
import { answerList, jsonAnswer } from './answer.ts'
import type { AppCall, AppEndpoint, Example, QueryParameter } from './endpoint.ts'
import { answerWith } from './openapi/schemas.ts'

interface ReadEndpoint<Item> {
  readonly path: string
  readonly operationId: string
  readonly tag: string
  readonly summary: string
  readonly field: string
  readonly item: Example
  readonly find: (tx: Tx, app: App, id: string) => Promise<Result<Item>>
  readonly present: (item: Item) => JsonObject
}

export function readEndpoint<Item>(read: ReadEndpoint<Item>): AppEndpoint {
  const { path, operationId, tag, summary, field, item, find, present } = read
  return {
    kind: 'app',
    method: 'GET',
    path,
    document: { operationId, tag, summary, answers: { 200: answerWith(field, item) } },
    async act(tx, call) {
      const found = await find(tx, call.app, idInPath(path, call))
      return mapResult(found, record => jsonAnswer(200, { [field]: present(record) }))
    },
  }
}

function idInPath(path: string, { param }: AppCall): string {
  return param(/\{(\w+)\}/.exec(path)?.[1] ?? '')
}

/** Bounds the memory of an export, which is read as one page. */
const maxExportItems = 1000n

type ExportEndpoint<Filter, Item> = Omit<ListEndpoint<Filter, Item>, 'item' | 'present'> & {
  readonly write: (items: readonly Item[]) => string
}

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
  /** Returns the id of the record that the list belongs to; by default, the id in the path. */
  readonly owner?: (filter: Filter) => string
  readonly list: (tx: Tx, request: OwnListRequest<Filter>) => Promise<Result<readonly Item[]>>
  readonly present: (item: Item) => JsonObject
}

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

async function readItems<Filter, Item>(
  { path, owner, list }: Pick<ListEndpoint<Filter, Item>, 'path' | 'owner' | 'list'>,
  tx: Tx,
  call: AppCall<PageInput<Filter>>,
): Promise<Result<readonly Item[]>> {
  const { app, input } = call
  return list(tx, { app, owner: owner?.(input.filter) ?? idInPath(path, call), page: input })
}

/** The schema of a boolean in a query, where it is one of these words. */
const flagSchema = { enum: ['yes', 'no', 'y', 'n', 'true', 'false', '1', '0'] }

/** Nested fields become parameters with brackets, such as `filter[created][from]`. */
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
