import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { createOpenapiDocument } from '../openapi/openapi.ts'

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, unknown>> }
}

export interface Operation {
  readonly operationId: string
  readonly security?: readonly unknown[]
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> }
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, Media>> }>>
}

export interface Media {
  readonly schema: object
  readonly example?: unknown
}

export const document = createOpenapiDocument() as unknown as Document

/** The JSON Schema validator that is a dependency of Fastify. Only tests use it. */
interface Ajv {
  addFormat(name: string, format: RegExp | ((text: string) => boolean)): void
  addSchema(schema: object): void
  compile(schema: object): Validate
  errorsText(errors: unknown): string
}

interface Validate {
  (value: unknown): boolean
  readonly errors?: unknown
}

const ofFastify = createRequire(createRequire(import.meta.url).resolve('fastify'))
const ofCompiler = createRequire(ofFastify.resolve('@fastify/ajv-compiler'))
const { Ajv2020 } = ofCompiler('ajv/dist/2020') as { readonly Ajv2020: new (options: object) => Ajv }

const documentId = 'https://example.com/openapi.json'
const ajv = new Ajv2020({ strict: false, allErrors: true })
ajv.addFormat('uuid', /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
ajv.addFormat('date-time', /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/)
ajv.addFormat('email', /^[^@]+@[^@]+$/)
ajv.addFormat('uri', (text: string) => URL.canParse(text))
ajv.addSchema({ $id: documentId, ...document })

const compiled = new Map<object, Validate>()

/** Asserts that the value is valid by the schema. The error lists the problems. */
export function assertValid(schema: object, value: unknown, what: string): void {
  const validate = compiled.get(schema) ?? ajv.compile(absolute(schema))
  compiled.set(schema, validate)
  assert.ok(validate(value), `${what}: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(value)}`)
}

/** Returns the schema with references that name the document, so that it can be compiled separately. */
function absolute(schema: object): object {
  return JSON.parse(JSON.stringify(schema).replaceAll('"$ref":"#/', `"$ref":"${documentId}#/`))
}

/** Asserts that the document describes this answer. Ignores requests to unknown endpoints. */
export function assertConforms(method: string, path: string, status: number, body: unknown): void {
  const operation = operationAt(method, path)
  if (operation === undefined || method === 'HEAD') return
  const what = `${method} ${path} → ${status}`
  const answer = operation.responses[status]
  assert.ok(answer !== undefined, `${what} is not in the OpenAPI document`)
  const [media] = Object.values(answer.content ?? {})
  const schema = media?.schema
  if (schema === undefined) assert.equal(body, undefined, `${what} has a body`)
  else assertValid(schema, body, what)
}

function operationAt(method: string, path: string): Operation | undefined {
  const parts = (path.split('?', 1)[0] ?? '').replace(/(?<=.)\/$/, '').split('/')
  const found = Object.entries(document.paths).find(([template, operations]) => {
    const expected = template.split('/')
    const fits = expected.every((part, index) => part.startsWith('{') || part === parts[index])
    return fits && expected.length === parts.length && Object.hasOwn(operations, method.toLowerCase())
  })
  return found?.[1][method.toLowerCase()]
}
