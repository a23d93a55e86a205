import type { IncomingMessage } from 'node:http'
import type { Schema } from '@tollway/crds/schema.ts'
import { validate } from '@tollway/crds/validation/validate.ts'
import { ApiError, invalid } from '../api-error.ts'

export interface ExpectedBody {
  readonly schema: object
  readonly maxBytes: number
}

/**
 * Reads the JSON body of a request, and validates it. Rejects with 413 for a body that is too large, with 415
 * for another content type, and with 400 for content that the schema does not allow.
 *
 * A page of another site can send a POST without asking the browser's permission only with three content
 * types, none of which is this one.
 */
export async function readBody(
  request: IncomingMessage,
  { schema, maxBytes }: ExpectedBody,
): Promise<unknown> {
  const type = request.headers['content-type'] ?? ''
  if (!/^application\/json\s*(;|$)/i.test(type)) {
    const found = type === '' ? 'there is none' : `${JSON.stringify(type.slice(0, 100))} is not allowed`
    throw new ApiError(415, 'content-type', `Content-Type: ${found}; expected application/json`)
  }
  const text = await readText(request, maxBytes)
  const checked = validate(schema as Schema, parse(text))
  if ('problems' in checked) throw invalid(checked.problems)
  return checked.value
}

/** The error of a body, or of what it contains, that is too large. */
export const bodyTooLarge = (message: string) =>
  new ApiError(413, 'too-large', message, {
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
      // The rest is read and dropped, so that the client reads the answer.
      request.off('data', onData).resume()
      reject(tooLarge)
    }
  }
  request.on('data', onData)
  request.once('end', () => resolve(Buffer.concat(chunks).toString()))
  request.once('error', reject)
  request.once('close', () => reject(new ApiError(400, 'invalid', 'the body is not complete')))
  return await promise
}

/** @throws ApiError that contains nothing of the body, since it may hold secrets */
function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalid([{ path: '', message: 'the body is not JSON; expected a map' }])
  }
}
