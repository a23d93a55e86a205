import type { IncomingMessage } from 'node:http'

/**
 * Reads the whole body of an answer as text. Returns undefined for more than `maxBytes`; the rest is not
 * read, and the connection is closed.
 *
 * @throws Error of the system when the connection is lost before the end
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
