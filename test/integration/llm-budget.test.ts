import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { encodeDomain } from '@tollway/ratelimit/config/domain-codec.ts'
import { CORE_SCHEMA, load } from 'js-yaml'
import { translateRateLimitConfig } from '../../operator/kinds/rate-limit-config/translate-rate-limit-config.ts'
import { freePorts } from '../support/free-ports.ts'
import { encodeResponse, startLimitFeed } from '../support/limit-feed.ts'
import { startProgram } from '../support/program.ts'
import { startRateLimit } from '../support/rate-limit-process.ts'
import { root } from '../support/tollway.ts'
import { startDeadlineMs, waitFor } from '../support/wait-for.ts'

const example = join(root, 'examples/limits/llm-budget')

interface Answer {
  readonly usage: { readonly budget_remaining: number }
  readonly error: { readonly code: string; readonly message: string }
}

/** The date and the time in Copenhagen, to the nearest minute. */
function showInCopenhagen(ms: number): string {
  const parts = { day: '2-digit', month: 'long', hour: '2-digit', minute: '2-digit' } as const
  const format = new Intl.DateTimeFormat('en-GB', { timeZone: 'Europe/Copenhagen', ...parts })
  return format.format(Math.round(ms / 60_000) * 60_000)
}

const read = async (response: Response) => (await response.json()) as Answer

test('the server of the example reserves a budget of tokens, and gives back what was not used', async t => {
  const feed = await startLimitFeed()
  t.after(() => feed.stop())
  const resource = load(readFileSync(join(example, 'limits.yaml'), 'utf8'), { schema: CORE_SCHEMA })
  const translated = translateRateLimitConfig('default/llm-budget', resource)
  assert.ok('value' in translated)
  feed.send(encodeResponse('1', [encodeDomain(translated.value)]))
  const service = await startRateLimit(t, { BACKEND_TYPE: 'memory', ...feed.settings })
  await service.serves()
  const [port = 0] = await freePorts(1)
  const args = ['--budgets', `127.0.0.1:${service.grpcPort}`, '--port', `${port}`, '--pause', '1']
  const server = startProgram(process.execPath, [join(example, 'server.ts'), ...args])
  t.after(() => server.end('SIGKILL'))
  await waitFor('the server', () => server.output().includes('answer on'), startDeadlineMs)

  const send = (body: object, init: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: 'Bearer acme' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'Tell me a story' }], ...body }),
      ...init,
    })
  const answered = await read(await send({ max_tokens: 6 }))
  assert.deepEqual(answered.usage, { prompt_tokens: 4, completion_tokens: 6, budget_remaining: 990 })

  const streamed = await (await send({ max_tokens: 6, stream: true })).text()
  assert.match(streamed, /"usage":\{"prompt_tokens":4,"completion_tokens":6,"budget_remaining":980\}/)

  const tooMuch = await send({ max_tokens: 977 })
  assert.equal(tooMuch.status, 429)
  assert.equal((await read(tooMuch)).error.code, 'insufficient_quota')
  const resetMs = Date.now() + Number(tooMuch.headers.get('retry-after')) * 1000
  assert.ok(resetMs > Date.now() && resetMs < Date.now() + 32 * 24 * 3_600_000)
  assert.match(showInCopenhagen(resetMs), /^01 \w+ at 00:00$/, 'the budget begins anew with the month')

  const leaving = new AbortController()
  const left = await send({ max_tokens: 976, stream: true }, { signal: leaving.signal })
  await left.body?.getReader().read()
  assert.equal(
    (await send({ max_tokens: 1 })).status,
    429,
    'all tokens are reserved while the answer is made',
  )
  leaving.abort()
  const regained = await waitFor('what was not said to return', async () => {
    const response = await send({ max_tokens: 1 })
    return response.status === 200 && (await read(response)).usage
  })
  assert.ok(regained.budget_remaining > 0 && regained.budget_remaining < 975, JSON.stringify(regained))

  const wrong = await send({ max_tokens: 0 })
  assert.deepEqual([wrong.status, (await read(wrong)).error.message], [400, 'max_tokens must be at least 1'])
})
