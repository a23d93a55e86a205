import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import type { Payments } from '../../operations/operation.ts'
import { paymentsEndpoints } from '../endpoints/endpoints.ts'
import { createApiServer } from '../servers/api-server.ts'
import { assertValid, document, type Operation } from '../testing/conformance-under-test.ts'

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    name: `${method} ${path}`,
    method,
    path,
    operation,
  })),
)

/** The endpoints of the public API, which the document must contain. */
const specified = `
  POST /apps
  GET /me
  POST /merchants
  PUT /merchants/{merchantId}
  GET /identities/{appId}/merchants
  GET /merchants/{merchantId}
  POST /merchants/{merchantId}/users
  DELETE /merchants/{merchantId}/users/{userId}
  GET /merchants/{merchantId}/users
  POST /merchants/{merchantId}/apps
  DELETE /merchants/{merchantId}/apps/{appId}
  GET /merchants/{merchantId}/apps
  GET /merchants/{merchantId}/lines
  POST /merchants/{merchantId}/transactions
  POST /transactions/{transactionId}/captures
  POST /transactions/{transactionId}/refunds
  POST /transactions/{transactionId}/voids
  GET /merchants/{merchantId}/transactions
  GET /transactions/{transactionId}
  POST /merchants/{merchantId}/cards
  GET /cards/{cardId}
  GET /frauds
  GET /frauds/{fraudId}
`

test('the document has every endpoint of the public API, and the server has its endpoints', async () => {
  const documented = operations.map(({ method, path }) => `${method.toUpperCase()} ${path}`)
  for (const line of specified.trim().split('\n')) assert.ok(documented.includes(line.trim()), line)
  assert.equal(documented.length, paymentsEndpoints.length)
  const { app } = createApiServer({
    payments: {} as Payments,
    log: silentLog,
    clock: systemClock,
    randomBytes: count => new Uint8Array(count),
    onAnswer: () => {},
    onReplay: () => {},
    ready: async () => true,
    signUps: null,
    guard: null,
  })
  await app.ready()
  for (const { method, path } of operations) {
    const url = path.replace(/\{(\w+)\}/g, ':$1')
    assert.ok(app.hasRoute({ method: method.toUpperCase() as 'GET', url }), `${method} ${path}`)
  }
  await app.close()
})

test('names of operations are unique', () => {
  const names = operations.map(({ operation }) => operation.operationId)
  assert.equal(new Set(names).size, names.length)
})

test('every example is valid for its schema', () => {
  for (const { name, operation } of operations) {
    for (const { schema, example } of mediaOf(operation)) {
      if (example !== undefined) assertValid(schema, example, name)
    }
  }
})

function mediaOf({ requestBody, responses }: Operation) {
  const contents = [requestBody?.content, ...Object.values(responses).map(({ content }) => content)]
  return contents.flatMap(content => Object.values(content ?? {}))
}

test('the service accepts the documented examples', () => {
  const call = { param: () => '', query: {}, encoding: 'json' as const, wantsChanged: true }
  const payments = { fundingCurrencies: ['DKK'] } as unknown as Payments
  for (const { document, parse } of paymentsEndpoints.filter(
    endpoint => endpoint.document.body !== undefined,
  )) {
    const input = parse?.({ ...call, payments, body: document.body?.example })
    assert.ok(input?.ok, document.operationId)
  }
})
