import type { JsonObject } from '@tollway/chassis/json.ts'
import { type PageInput, pageReader, parsePage } from '../domain/input/page.ts'
import type { Reader } from '../domain/input/record.ts'
import type { App } from '../domain/merchant.ts'
import { mapResult, type Result } from '../domain/rejections.ts'
import type { OwnListRequest } from '../operations/lists.ts'
import type { Tx } from '../storage/storage.ts'
import { answerList, type HttpAnswer, jsonAnswer } from './answer.ts'
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

interface PageEndpoint<Filter, Item> {
  readonly path: string
  readonly operationId: string
  readonly tag: string
  readonly summary: string
  readonly filter: Reader<Filter>
  /** Returns the id of the record that the list belongs to; by default, the id in the path. */
  readonly owner?: (filter: Filter) => string
  readonly list: (tx: Tx, request: OwnListRequest<Filter>) => Promise<Result<readonly Item[]>>
}

type ListEndpoint<Filter, Item> = PageEndpoint<Filter, Item> & {
  readonly item: Example
  readonly present: (item: Item) => JsonObject
}

export function listEndpoint<Filter, Item>(list: ListEndpoint<Filter, Item>): AppEndpoint<PageInput<Filter>> {
  const { item, present } = list
  const answer = { schema: { type: 'array', items: item.schema }, example: [item.example] }
  return pageEndpoint(list, { answers: { 200: answer } }, items => answerList(items.map(present)))
}

type ExportEndpoint<Filter, Item> = PageEndpoint<Filter, Item> & {
  readonly write: (items: readonly Item[]) => string
}

export function exportEndpoint<Filter, Item>(
  list: ExportEndpoint<Filter, Item>,
): AppEndpoint<PageInput<Filter>> {
  const { write } = list
  const document = {
    description:
      'RFC 4180 in UTF-8, with a header. Text that a spreadsheet program takes for a formula has an apostrophe in ' +
      'front. For what follows, pass the last id as `before`.',
    produces: 'text/csv',
    answers: { 200: { schema: { type: 'string' }, example: write([]) } },
  } as const
  const toAnswer = (items: readonly Item[]): HttpAnswer => {
    return { status: 200, body: write(items), type: 'text/csv' }
  }
  return pageEndpoint(list, document, toAnswer, maxExportItems)
}

function pageEndpoint<Filter, Item>(
  { path, operationId, tag, summary, filter, owner, list }: PageEndpoint<Filter, Item>,
  document: Pick<AppEndpoint['document'], 'description' | 'produces' | 'answers'>,
  toAnswer: (items: readonly Item[]) => HttpAnswer,
  maxItems?: bigint,
): AppEndpoint<PageInput<Filter>> {
  const query = listParameters(pageReader(filter, maxItems).schema)
  return {
    kind: 'app',
    method: 'GET',
    path,
    document: { operationId, tag, summary, query, ...document },
    parse: call => parsePage(call.query, filter, maxItems),
    async act(tx, call) {
      const { app, input } = call
      const ownerId = owner?.(input.filter) ?? idInPath(path, call)
      return mapResult(await list(tx, { app, owner: ownerId, page: input }), toAnswer)
    },
  }
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
