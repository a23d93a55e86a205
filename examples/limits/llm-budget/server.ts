import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { create, type DescMessage, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import {
  CommitRequestSchema,
  CommitResponseSchema,
  ReserveRequestSchema,
  ReserveResponseSchema,
} from '@tollway/proto/tollway/ratelimit/v1/budgets'

/**
 * A server with the API of OpenAI's chat completions, whose model says the same words again and again. Its customers, who are
 * named by their API keys, have the budget of limits.yaml:
 *
 *     node examples/limits/llm-budget/server.ts --budgets 127.0.0.1:8081 --port 9100
 *     curl localhost:9100/v1/chat/completions -H 'authorization: Bearer acme' \
 *       -d '{"messages": [{"role": "user", "content": "Tell me a story"}], "max_tokens": 20, "stream": true}'
 */
const { values: options } = parseArgs({
  options: {
    budgets: { type: 'string', default: '127.0.0.1:8081' },
    port: { type: 'string', default: '9100' },
    // The time for a token.
    pause: { type: 'string', default: '20' },
  },
})

const words = 'The toll is paid when the road has ended, and what was not driven is given back. '.split(' ')
/** An answer takes at most this time; afterwards its reservation has expired. */
const ttl = { seconds: 120n }
const maxBodyBytes = 1_000_000

const client = createGrpcClient(options.budgets)

function method<In extends DescMessage, Out extends DescMessage>(name: string, request: In, response: Out) {
  const codec = {
    encode: (message: MessageInitShape<In>) => toBinary(request, create(request, message)),
    decode: (bytes: Uint8Array) => fromBinary(response, bytes),
  }
  return (init: MessageInitShape<In>) =>
    client.unary(`/tollway.ratelimit.v1.Budgets/${name}`, codec, init, { timeoutMs: 1_000 })
}

const reserve = method('Reserve', ReserveRequestSchema, ReserveResponseSchema)
const commit = method('Commit', CommitRequestSchema, CommitResponseSchema)

interface Question {
  readonly prompt: string
  readonly maxTokens: number
  readonly stream: boolean
}

/** Throws an Error for a body that is no question. */
async function readQuestion(request: IncomingMessage): Promise<Question> {
  let body = ''
  for await (const chunk of request.setEncoding('utf8')) {
    body += chunk
    if (body.length > maxBodyBytes) throw new Error('the body is too large')
  }
  const { messages, max_tokens: maxTokens = 16, stream = false } = JSON.parse(body)
  if (!Array.isArray(messages)) throw new Error('messages must be a list')
  if (!(Number.isInteger(maxTokens) && maxTokens > 0)) throw new Error('max_tokens must be at least 1')
  return { prompt: messages.map(({ content }) => `${content}`).join(' '), maxTokens, stream }
}

const countTokens = (text: string) => text.split(' ').filter(word => word !== '').length

function sendJson(response: ServerResponse, status: number, content: object, headers = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(JSON.stringify(content))
}

const toError = (type: string, message: string) => ({ error: { type, code: type, message } })

/** Yields words until there are enough of them or nobody reads them any more. */
async function* speak(maxTokens: number, response: ServerResponse): AsyncGenerator<string> {
  for (let spoken = 0; spoken < maxTokens && !response.destroyed; spoken++) {
    await setTimeout(Number(options.pause))
    yield `${words[spoken % words.length]} `
  }
}

async function complete(
  customer: string,
  question: Question,
  request: IncomingMessage,
  response: ServerResponse,
) {
  const promptTokens = countTokens(question.prompt)
  const { result } = await reserve({
    domain: 'llm-budget',
    descriptor: { entries: [{ key: 'customer', value: customer }] },
    amount: BigInt(promptTokens + question.maxTokens),
    ttl,
    // A client that sends its request again gets the same reservation.
    requestId: `${request.headers['x-request-id'] ?? randomUUID()}`,
  })
  if (result.case !== 'reservation') {
    const { remaining = 0n, nextChance } = result.value ?? {}
    const seconds =
      nextChance === undefined
        ? undefined
        : Math.max(1, Number(nextChance.seconds) - Math.floor(Date.now() / 1000))
    const message = `The request may use ${promptTokens + question.maxTokens} tokens, and ${remaining} are left of the month.`
    const headers = seconds === undefined ? {} : { 'retry-after': `${seconds}` }
    sendJson(response, 429, toError('insufficient_quota', message), headers)
    return
  }
  let text = ''
  try {
    if (question.stream) response.writeHead(200, { 'content-type': 'text/event-stream' })
    for await (const word of speak(question.maxTokens, response)) {
      text += word
      const chunk = { object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: word } }] }
      if (!question.stream || response.write(`data: ${JSON.stringify(chunk)}\n\n`) || response.destroyed)
        continue
      await Promise.race([once(response, 'drain'), once(response, 'close')])
    }
  } finally {
    // Also for a reader who has left: what was said so far is paid.
    const { remaining } = await commit({
      id: result.value.id,
      actual: BigInt(promptTokens + countTokens(text)),
    })
    const usage = {
      prompt_tokens: promptTokens,
      completion_tokens: countTokens(text),
      budget_remaining: Number(remaining),
    }
    if (question.stream) response.end(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`)
    else {
      const choices = [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'length' }]
      sendJson(response, 200, { object: 'chat.completion', choices, usage })
    }
  }
}

const server = createServer(async (request, response) => {
  const [, customer] = /^Bearer (\S+)$/.exec(request.headers.authorization ?? '') ?? []
  if (request.method !== 'POST' || request.url !== '/v1/chat/completions') {
    sendJson(response, 404, toError('not_found', 'Only POST /v1/chat/completions is there.'))
    return
  }
  if (customer === undefined) {
    sendJson(response, 401, toError('invalid_api_key', 'Send the name of a customer as the API key.'))
    return
  }
  const question = await readQuestion(request).catch((error: Error) => error)
  if (question instanceof Error) {
    sendJson(response, 400, toError('invalid_request_error', question.message))
    return
  }
  await complete(customer, question, request, response).catch((error: Error) => {
    if (response.headersSent) response.destroy()
    else sendJson(response, 503, toError('server_error', error.message))
  })
})
server.listen(Number(options.port), '127.0.0.1', () => {
  process.stdout.write(`answer on http://127.0.0.1:${options.port}/v1/chat/completions\n`)
})
