import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { before, test } from 'node:test'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { CallGuard } from '../../call-guard.ts'
import { createLocalCallLimits } from '../../call-limits.ts'
import { createApiServer } from '../servers/api-server.ts'
import { type ApiUnderTest, basic, openShop, sharedApi, type TestShop } from './api-under-test.ts'

let api: ApiUnderTest
let shop: TestShop
before(async () => {
  api = await sharedApi()
  shop = await openShop(api)
})

/** The limits refill by this clock: the calls of a test count as simultaneous, however long they take. */
const stopped = { nowMs: () => 0, monotonicMs: () => 0 }
const plenty = { address: 1_000, key: 1_000, failed_key: 1_000 }

/** Calls GET /me from each address with the key, or without one for ''. Resolves with the outcomes. */
async function callAll(
  limits: Partial<typeof plenty>,
  calls: readonly (readonly [address: string, key: string])[],
): Promise<readonly string[]> {
  const server = createApiServer({
    payments: api.payments,
    clock: api.clock,
    log: silentLog,
    randomBytes,
    signUps: null,
    onAnswer: () => {},
    onReplay: () => {},
    ready: async () => true,
    guard: new CallGuard(createLocalCallLimits({ ...plenty, ...limits }, stopped), stopped),
    trustedProxies: [{ address: '127.0.0.0', prefix: 8 }],
  })
  const port = await server.listen({ host: '127.0.0.1', port: 0 })
  const answers: string[] = []
  try {
    for (const [address, key] of calls) {
      const headers = { 'x-forwarded-for': address, ...(key !== '' && { authorization: basic(key) }) }
      const answer = await fetch(`http://127.0.0.1:${port}/me`, { headers })
      await answer.arrayBuffer()
      answers.push(`${answer.status} ${answer.headers.get('retry-after') ?? ''}`.trim())
    }
  } finally {
    await server.close(100)
  }
  return answers
}

const [one, two] = ['203.0.113.1', '203.0.113.2']

test('calls of one key are limited across addresses', async () => {
  const { key } = shop
  const calls = [one, two, one].map(address => [address, key] as const)
  assert.deepEqual(await callAll({ key: 2 }, calls), ['200', '200', '429 30'])
})

test('calls of one address are limited, with and without keys', async () => {
  const { key } = shop
  const calls = [
    [one, key],
    [one, ''],
    [one, key],
    [two, key],
  ] as const
  assert.deepEqual(await callAll({ address: 2 }, calls), ['200', '401', '429 30', '200'])
})

test('after too many invalid keys of an address its next keys are not looked up', async () => {
  const { key } = shop
  const calls = [
    [one, 'tollway_wrong-1'],
    [one, 'tollway_wrong-2'],
    [one, 'tollway_wrong-3'],
    [one, key],
    [two, key],
  ] as const
  assert.deepEqual(await callAll({ failed_key: 2 }, calls), ['401', '401', '429 30', '429 30', '200'])
})

test('of many simultaneous invalid keys few are looked up, and valid ones are still answered', async t => {
  let lookedUp = 0
  const { storage } = api.payments
  const counting: typeof storage = {
    ...storage,
    read: async work => {
      lookedUp += 1
      return storage.read(work)
    },
  }
  const limits = createLocalCallLimits({ ...plenty, failed_key: 20 }, stopped)
  const server = createApiServer({
    payments: { ...api.payments, storage: counting },
    clock: api.clock,
    log: silentLog,
    randomBytes,
    signUps: null,
    onAnswer: () => {},
    onReplay: () => {},
    ready: async () => true,
    guard: new CallGuard(limits, stopped),
  })
  t.after(() => server.close(100))
  const port = await server.listen({ host: '127.0.0.1', port: 0 })
  const call = async (key: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}/me`, { headers: { authorization: basic(key) } })
    await answer.arrayBuffer()
    return answer.status
  }
  const right = await Promise.all(Array.from({ length: 100 }, () => call(shop.key)))
  assert.deepEqual(new Set(right), new Set([200]))
  lookedUp = 0
  const wrong = await Promise.all(Array.from({ length: 300 }, (_, index) => call(`tollway_wrong_${index}`)))
  assert.equal(wrong.filter(status => status === 401).length, 20)
  // Up to 8 look-ups more, because those that run when the limit is reached continue.
  assert.ok(lookedUp <= 20 + 8, `${lookedUp} keys were looked up`)
})

test('of 500 simultaneous invalid keys few get another answer than 429', async () => {
  const calls = Array.from({ length: 500 }, (_, index) => [one, `tollway_${index}`] as const)
  const answers = await callAll({ failed_key: 60 }, calls)
  assert.equal(answers.filter(answer => answer.startsWith('401')).length, 60)
  assert.equal(answers.filter(answer => answer.startsWith('429')).length, 440)
})
