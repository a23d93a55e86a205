import type { IncomingMessage } from 'node:http'

/**
 * Reads a body as text. For more than `maxBytes`, closes the connection and resolves with undefined.
 *
 * @throws Error of the system when the connection is lost before the end of the body
 */
export async function readBoundedBody(
  response: IncomingMessage,
  maxBytes: number,
): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > maxBytes) {
      response.destroy()
      return undefined
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}
