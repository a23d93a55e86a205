import type { JsonObject } from '@tollway/chassis/json.ts'
import { rejections } from '../../domain/rejections.ts'
import type { Example, PaymentsEndpoint, QueryParameter } from '../endpoint.ts'
import { paymentsEndpoints } from '../endpoints/endpoints.ts'
import { ref, schemas } from './schemas.ts'

/** The version of the API in the OpenAPI document. It is not the version of the service. */
const apiVersion = '1.0.0'

export const openapiPath = '/openapi.json'

/** Creates the OpenAPI 3.1 document from `paymentsEndpoints`, as the routes of the server. */
export function createOpenapiDocument(): JsonObject {
  const paths: Record<string, Record<string, JsonObject>> = {}
  for (const endpoint of paymentsEndpoints) {
    const operations = paths[endpoint.path] ?? {}
    operations[endpoint.method.toLowerCase()] = describeOperation(endpoint)
    paths[endpoint.path] = operations
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Tollway payments',
      version: apiVersion,
      description:
        'Merchants, their members and card transactions. Amounts are whole numbers of minor units. Bodies are ' +
        'JSON or forms. In a form, the names of nested fields are in brackets, and booleans are yes or no.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    security: [{ apiKey: [] }],
    tags: [...new Set(paymentsEndpoints.map(({ document }) => document.tag))].map(name => ({ name })),
    paths,
    components: {
      schemas,
      securitySchemes: {
        apiKey: {
          type: 'http',
          scheme: 'basic',
          description: 'An empty user name, and the API key of an app as the password.',
        },
      },
      headers: { RequestId: requestIdHeader },
    },
  }
}

const requestIdHeader = {
  description: 'The id of the request: the x-request-id of the caller, or a new one.',
  schema: { type: 'string' },
}

function describeOperation({ kind, method, path, document }: PaymentsEndpoint): JsonObject {
  const {
    operationId,
    tag,
    summary,
    description,
    query = [],
    body,
    answers,
    declines = false,
    produces,
  } = document
  const parameters = [
    ...pathParameters(path),
    ...query.map(queryParameter),
    ...(method === 'POST' ? [idempotencyKey] : []),
  ]
  return {
    operationId,
    tags: [tag],
    summary,
    ...(description === undefined ? {} : { description }),
    ...(kind === 'sign-up' ? { security: [] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: requestBody(body) }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, answer]) => [status, success(answer, produces)]),
      ),
      ...describeErrors(method, kind, declines),
    },
  }
}

function pathParameters(path: string): readonly JsonObject[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string', format: 'uuid' },
  }))
}

function queryParameter({ name, description, required, style, schema }: QueryParameter): JsonObject {
  return { name, in: 'query', description, required, ...(style && { style, explode: true }), schema }
}

const idempotencyKey = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description: 'Equal requests with the same key have one effect and the same answer for 24 hours.',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
}

function requestBody({ schema, example, required }: Example & { readonly required: boolean }): JsonObject {
  return {
    required,
    content: {
      'application/json': { schema, example },
      'application/x-www-form-urlencoded': { schema },
    },
  }
}

const headers = { 'x-request-id': { $ref: '#/components/headers/RequestId' } }

function success(answer: Example | null, type = 'application/json'): JsonObject {
  if (answer === null) return { description: 'Done.', headers }
  return { description: 'Done.', headers, content: { [type]: { ...answer } } }
}

/** Returns the error answers of an endpoint, by status. The `code` in a body states the exact error. */
function describeErrors(
  method: PaymentsEndpoint['method'],
  kind: PaymentsEndpoint['kind'],
  declines: boolean,
): JsonObject {
  const invalid = declines ? 'the payment was declined' : 'the body cannot be read'
  const entries: [number, string][] = []
  if (kind === 'sign-up') entries.push([403, rejections.signup_closed.message])
  else entries.push([401, rejections.unauthorized.message], [404, rejections.not_found.message])
  entries.push([406, rejections.not_acceptable.message])
  if (method !== 'GET')
    entries.push([409, 'The state of a record does not allow the request. The code has the cause.'])
  if (method === 'POST' || method === 'PUT') {
    entries.push([413, rejections.body_too_large.message], [415, rejections.unsupported_media_type.message])
  }
  if (method === 'POST') entries.push([422, rejections.idempotency_mismatch.message])
  entries.push([429, rejections.too_many_requests.message])
  entries.push([500, rejections.internal_error.message], [503, rejections.unavailable.message])
  return {
    400: errorAnswer(`Some fields are invalid, or ${invalid}.`, anyError),
    ...Object.fromEntries(entries.map(([status, text]) => [status, errorAnswer(text, ref('Error'))])),
  }
}

const anyError = { anyOf: [ref('FieldErrors'), ref('Error')] }

function errorAnswer(description: string, schema: JsonObject): JsonObject {
  return { description, headers, content: { 'application/json': { schema } } }
}
