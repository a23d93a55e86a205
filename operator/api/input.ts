import type { IncomingMessage } from 'node:http'
import type { Schema } from '@tollway/crds/schema.ts'
import { validateValue } from '@tollway/crds/validate.ts'
import type { Parameter } from './endpoints.ts'
import { ApiError, invalidInput } from './errors.ts'

/** The parameters of a call by name, validated and completed with defaults. */
export type CallParameters = Readonly<Record<string, unknown>>

/**
 * @param inPath the parameters in the path, decoded
 * @throws ApiError with 400 that names each parameter that is unknown, missing, repeated or invalid
 */
export function readParameters(
  parameters: readonly Parameter[],
  inPath: Readonly<Record<string, string>>,
  query: string,
): CallParameters {
  const given: Record<string, unknown> = { ...inPath }
  for (const [name, values] of readQuery(query)) {
    const known = parameters.find(parameter => parameter.in === 'query' && parameter.name === name)
    if (known?.isList) given[name] = values
    else if (values.length > 1)
      throw invalidInput([{ path: name, message: `is given ${values.length} times; expected one value` }])
    else given[name] = known === undefined ? values[0] : readValue(known, values[0] ?? '')
  }
  const checked = validateValue(toObjectSchema(parameters), given)
  if ('problems' in checked) throw invalidInput(checked.problems)
  return checked.value as CallParameters
}

function readValue({ schema }: Parameter, text: string): unknown {
  return (schema as Schema).type === 'integer' && /^-?\d{1,15}$/.test(text) ? Number(text) : text
}

function toObjectSchema(parameters: readonly Parameter[]): Schema {
  return {
    type: 'object',
    properties: Object.fromEntries(parameters.map(({ name, schema }) => [name, schema as Schema])),
    required: parameters.filter(({ required }) => required).map(({ name }) => name),
  }
}

const maxParameters = 200

/**
 * Reads the query of a URL: the decoded values of each name, in order. Values of `descriptor` are not
 * decoded: `readEntry` does that.
 *
 * @throws ApiError with 400 for text that is not percent-encoded UTF-8
 */
function readQuery(query: string): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>()
  const pairs = query.split('&').filter(pair => pair !== '')
  if (pairs.length > maxParameters) {
    throw invalidInput([
      { path: '', message: `has ${pairs.length} parameters; at most ${maxParameters} are allowed` },
    ])
  }
  for (const pair of pairs) {
    const end = pair.includes('=') ? pair.indexOf('=') : pair.length
    const name = decode(pair.slice(0, end), 'the query')
    const raw = pair.slice(end + 1)
    const values = found.get(name) ?? []
    values.push(name === 'descriptor' ? raw : decode(raw, name))
    found.set(name, values)
  }
  return found
}

/**
 * Reads one entry of a descriptor from a query parameter: KEY=VALUE, with `=` and `,` in the key
 * percent-encoded. A client may percent-encode this pair as a whole once more.
 *
 * @param raw the value as it was sent
 * @throws ApiError with 400
 */
export function readEntry(raw: string, field: string): { readonly key: string; readonly value: string } {
  const isEncodedWhole = !raw.includes('=')
  const pair = isEncodedWhole ? decode(raw, field) : raw
  const end = pair.indexOf('=')
  if (end <= 0) {
    const message = `${JSON.stringify(pair.slice(0, 100))} is not allowed; expected KEY=VALUE`
    throw invalidInput([{ path: field, message }])
  }
  const key = decode(pair.slice(0, end), field)
  const value = pair.slice(end + 1)
  return { key, value: isEncodedWhole ? value : decode(value, field) }
}

function decode(text: string, field: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    const message = `${JSON.stringify(text.slice(0, 100))} is not percent-encoded UTF-8`
    throw invalidInput([{ path: field, message }])
  }
}

interface ExpectedBody {
  readonly schema: object
  readonly maxBytes: number
}

/**
 * Reads the JSON body of a request, and validates it. Rejects with 413 for a body that is too large, with 415
 * for another content type, and with 400 for content that the schema does not allow.
 *
 * The content type is checked for security: without a CORS preflight, a page of another site can only send a
 * POST with one of three other content types.
 */
export async function readRequestBody(
  request: IncomingMessage,
  { schema, maxBytes }: ExpectedBody,
): Promise<unknown> {
  const type = request.headers['content-type'] ?? ''
  if (!/^application\/json\s*(;|$)/i.test(type)) {
    const found = type === '' ? 'there is none' : `${JSON.stringify(type.slice(0, 100))} is not allowed`
    throw new ApiError('content-type', `Content-Type: ${found}; expected application/json`)
  }
  const text = await readText(request, maxBytes)
  const checked = validateValue(schema as Schema, parseJson(text))
  if ('problems' in checked) throw invalidInput(checked.problems)
  return checked.value
}

export const bodyTooLarge = (message: string) =>
  new ApiError('too-large', message, {
    problems: [{ path: 'body', message }],
    headers: { connection: 'close' },
  })

async function readText(request: IncomingMessage, maxBytes: number): Promise<string> {
  const tooLarge = bodyTooLarge(`the body is larger than ${maxBytes} bytes`)
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw tooLarge
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const chunks: Buffer[] = []
  let bytes = 0
  const onData = (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= maxBytes) chunks.push(chunk)
    else {
      // The rest is read and dropped: the client may read the answer only after it has sent everything.
      request.off('data', onData).resume()
      reject(tooLarge)
    }
  }
  request.on('data', onData)
  request.once('end', () => resolve(Buffer.concat(chunks).toString()))
  request.once('error', reject)
  request.once('close', () => reject(new ApiError('invalid', 'the body is not complete')))
  return await promise
}

/** @throws ApiError without any text of the body, which may contain secrets */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalidInput([{ path: '', message: 'the body is not JSON; expected a map' }])
  }
}
