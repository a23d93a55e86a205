import { createHmac } from 'node:crypto'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A request that a receiver of webhooks has received. */
export interface ReceivedPost {
  readonly path: string
  readonly id: string
  readonly event: ReceivedEvent
  /** The numbers of the receiver's secrets with which it was signed: `0`, `0 1`; empty for none. */
  readonly signedBy: string
}

export interface ReceivedEvent {
  readonly id: string
  readonly type: string
  readonly created: string
  readonly namespace: string
  readonly route: string
  readonly data: Readonly<Record<string, unknown>>
}

export type Answer = (response: ServerResponse, post: ReceivedPost) => void

export const accept: Answer = response => void response.writeHead(204).end()
export const answerWith =
  (status: number, headers: Readonly<Record<string, string>> = {}): Answer =>
  response =>
    void response.writeHead(status, headers).end()
/** Accepts the request and never answers it. */
export const hang: Answer = () => {}

export const createSecret = (byte: number) => `whsec_${Buffer.alloc(24, byte).toString('base64')}`

/** Starts an HTTP server that verifies signatures as Standard Webhooks demands, and remembers every post. */
export async function startReceiver(
  t: { after(work: () => unknown): void },
  secrets: readonly string[] = [createSecret(1)],
) {
  const posts: ReceivedPost[] = []
  const receiver = { posts, url: '', answer: accept }
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const body = Buffer.concat(chunks).toString()
    const [id, timestamp, signatures] = ['id', 'timestamp', 'signature'].map(name =>
      String(request.headers[`webhook-${name}`]),
    ) as [string, string, string]
    const signedBy = secrets.flatMap((secret, index) => {
      const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
      const expected = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
      return signatures.split(' ').includes(`v1,${expected}`) ? [index] : []
    })
    const post = { path: request.url ?? '', id, event: JSON.parse(body), signedBy: signedBy.join(' ') }
    posts.push(post)
    receiver.answer(response, post)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return receiver
}
