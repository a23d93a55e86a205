import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'

/** Prints when requests begin and end. Usage: `SECRET=whsec_… node receive.ts [PORT]`. */

const secret = process.env['SECRET'] ?? 'whsec_ZGVtby1kZW1vLWRlbW8tZGVtby1kZW1vLWRlbW8tMDE='
const port = Number(process.argv[2] ?? 8099)
const maxBodyBytes = 64 * 1024
/**
 * The maximum age of a message. Older ones are rejected, so that an attacker cannot send recorded messages
 * again.
 */
const toleranceSeconds = 300

function verify(request: IncomingMessage, body: string): boolean {
  const [id, timestamp, signatures] = ['id', 'timestamp', 'signature'].map(name =>
    String(request.headers[`webhook-${name}`]),
  ) as [string, string, string]
  const isRecent = Math.abs(Date.now() / 1000 - Number(timestamp)) <= toleranceSeconds
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest()
  return isRecent && signatures.split(' ').some(signature => isSame(signature, expected))
}

function isSame(signature: string, expected: Buffer): boolean {
  const [version, text = ''] = signature.split(',')
  const found = Buffer.from(text, 'base64')
  return version === 'v1' && found.length === expected.length && timingSafeEqual(found, expected)
}

/** The ids of received messages, because a message can be delivered again. A real receiver stores them. */
const seen = new Set<string>()

function handle(id: string, body: string): void {
  if (seen.has(id)) return
  seen.add(id)
  const { type, namespace, route, data } = JSON.parse(body)
  const how = data.end === undefined ? '' : ` ${data.end.how} ${data.end.message ?? ''}`
  process.stdout.write(
    `${type} ${namespace}/${route} ${data.streamId} ${data.requestId}${how}`.trimEnd().concat('\n'),
  )
}

async function read(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of request) {
    length += chunk.length
    if (length > maxBodyBytes) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

createServer(async (request, response) => {
  const body = await read(request)
  const isGenuine = body !== undefined && verify(request, body)
  if (isGenuine) handle(String(request.headers['webhook-id']), body)
  response.writeHead(isGenuine ? 204 : 401).end()
}).listen(port, '127.0.0.1', () => process.stdout.write(`receiving on port ${port}\n`))
