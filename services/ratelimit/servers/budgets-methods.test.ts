import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import type { ReserveRequestSchema, ReserveResponse } from '@tollway/proto/tollway/ratelimit/v1/budgets'
import { callBudgets } from '../../../test/support/call-budgets.ts'
import { Budgets } from '../budgets.ts'
import { createMemoryCounters } from '../counters/memory.ts'
import type { Reservations } from '../counters/reservations.ts'
import { compile } from '../rules/compile.ts'
import { parseYaml } from '../rules/yaml/parse-yaml.ts'
import { createLimitStats } from '../stats/limit-stats.ts'
import { createStats } from '../stats/stats.ts'
import { budgetsMethods } from './budgets-methods.ts'

const yaml = `
domain: llm
descriptors:
  - {key: tokens, rate_limit: {unit: hour, requests_per_unit: 1000}}
  - {key: burst, rate_limit: {unit: second, requests_per_unit: 10}}
  - {key: free, rate_limit: {unlimited: true}}
`

/** Ten minutes before the end of an hour. */
const startMs = 1_000_800_000 - 600_000

interface Options {
  readonly hasPerSecondBackend?: boolean
  readonly shadowMode?: boolean
  readonly reservations?: Reservations
}

async function start(t: TestContext, options: Options = {}) {
  let nowMs = startMs
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  const stats = createStats()
  const limitStats = createLimitStats(stats, () => {})
  const parsed = parseYaml('test.yaml', yaml)
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems))
  const rules = compile([parsed.value], { mergeDomainConfigs: false, attach: limitStats.attach })
  const counters = createMemoryCounters({ clock })
  const decreased: string[] = []
  const budgets = new Budgets({
    rules: () => rules,
    reservations: counters.reservations,
    clock,
    cacheKeyPrefix: 'p_',
    hasPerSecondBackend: false,
    shadowMode: false,
    onDecrease: keys => decreased.push(...keys),
    ...options,
  })
  const server = createGrpcServer({
    methods: budgetsMethods(budgets, stats),
    onDefect: (path, error) => assert.fail(`${path}: ${error}`),
  })
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  assert.ok('port' in bound)
  const { reserve, commit, release, extend } = callBudgets(t, bound.port)
  t.after(async () => {
    await server.drain(0)
    await counters.close()
  })
  return {
    decreased,
    elapse(ms: number) {
      nowMs += ms
    },
    reserve,
    commit: (id: string, actual: bigint) => commit({ id, actual }),
    release: (id: string) => release({ id }),
    extend: (id: string, seconds: bigint) => extend({ id, ttl: { seconds } }),
  }
}

const minute = { seconds: 60n }

type ReserveInit = MessageInitShape<typeof ReserveRequestSchema>

const asking = (amount: bigint, over: Record<string, unknown> = {}): ReserveInit => ({
  domain: 'llm',
  descriptor: { entries: [{ key: 'tokens', value: 'alice' }] },
  amount,
  ttl: minute,
  ...over,
})

function reservationOf({ result }: ReserveResponse) {
  assert.equal(result.case, 'reservation')
  return result.value as Extract<ReserveResponse['result'], { case: 'reservation' }>['value']
}

function rejectionOf({ result }: ReserveResponse) {
  assert.equal(result.case, 'rejection')
  return result.value as Extract<ReserveResponse['result'], { case: 'rejection' }>['value']
}

async function errorOf(call: Promise<unknown>): Promise<[string, string]> {
  const error: unknown = await call.then(
    () => 'it was answered',
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof GrpcError, String(error))
  const [name = ''] = Object.entries(statusCodes).find(([, code]) => code === error.code) ?? []
  return [name, error.message]
}

test('an amount is reserved, committed and rejected over gRPC', async t => {
  const { reserve, commit, decreased } = await start(t)
  const first = reservationOf(await reserve(asking(700n)))
  assert.equal(first.remaining, 300n)
  assert.match(first.id, /^[0-9a-z]{1,4}\.[\w-]{22}\.[\w-]{22}$/)
  assert.equal(Number(first.expiresAt?.seconds), startMs / 1000 + 60)
  const rejection = rejectionOf(await reserve(asking(400n)))
  assert.equal(rejection.remaining, 300n)
  assert.equal(Number(rejection.nextChance?.seconds), startMs / 1000 + 60)
  assert.equal((await commit(first.id, 500n)).remaining, 500n)
  assert.deepEqual(decreased, ['p_llm_tokens_alice_997200'])
  assert.equal((await commit(first.id, 500n)).remaining, 500n)
  const late = rejectionOf(await reserve(asking(600n)))
  assert.equal(Number(late.nextChance?.seconds), startMs / 1000 + 600)
  assert.equal(rejectionOf(await reserve(asking(1001n))).nextChance, undefined)
})

test('a request_id names one reservation, also after its window has ended', async t => {
  const { reserve, elapse } = await start(t)
  const named = asking(100n, { requestId: 'r1' })
  const { id } = reservationOf(await reserve(named))
  assert.equal(reservationOf(await reserve(named)).id, id)
  elapse(595_000)
  const late = asking(100n, { requestId: 'r2' })
  const before = reservationOf(await reserve(late))
  elapse(10_000)
  assert.equal(reservationOf(await reserve(late)).id, before.id)
  assert.notEqual(reservationOf(await reserve(named)).id, id)
  assert.deepEqual(await errorOf(reserve(asking(5n, { requestId: 'r1' }))), [
    'INVALID_ARGUMENT',
    'request_id: a reservation of 100 has it already, so amount cannot be 5',
  ])
})

test('a reservation is extended, expires and is committed late', async t => {
  const { reserve, extend, commit, release, elapse } = await start(t)
  const { id } = reservationOf(await reserve(asking(100n)))
  const { expiresAt } = await extend(id, 120n)
  assert.equal(Number(expiresAt?.seconds), startMs / 1000 + 120)
  elapse(121_000)
  assert.deepEqual(await errorOf(extend(id, 60n)), [
    'FAILED_PRECONDITION',
    'id: the reservation has ended: it is expired',
  ])
  assert.equal((await commit(id, 150n)).remaining, 850n)
  assert.deepEqual(await errorOf(release(id)), [
    'FAILED_PRECONDITION',
    'id: the reservation has ended: it is committed',
  ])
  assert.deepEqual(await errorOf(commit(id, 3n)), [
    'FAILED_PRECONDITION',
    'actual: the reservation was committed with 150, not 3',
  ])
  elapse(300_001)
  assert.deepEqual(await errorOf(commit(id, 150n)), [
    'NOT_FOUND',
    `id: there is no reservation ${id}, or it ended more than 5 minutes ago`,
  ])
})

test('a released reservation cannot be committed, and its release can be repeated', async t => {
  const { reserve, commit, release } = await start(t)
  const { id } = reservationOf(await reserve(asking(100n)))
  for (let times = 0; times < 2; times++) assert.equal((await release(id)).remaining, 1000n)
  assert.deepEqual(await errorOf(commit(id, 1n)), [
    'FAILED_PRECONDITION',
    'id: the reservation has ended: it is released',
  ])
})

test('an unlimited descriptor and one without a rule reserve everything', async t => {
  const { reserve, commit, release, extend } = await start(t)
  for (const key of ['free', 'unknown']) {
    const answer = await reserve(asking(5n, { descriptor: { entries: [{ key, value: '' }] } }))
    const { id, remaining } = reservationOf(answer)
    assert.deepEqual([id, remaining], ['unlimited', BigInt(Number.MAX_SAFE_INTEGER)], key)
    await extend(id, 5n)
    await commit(id, 5n)
    await release(id)
  }
})

test('nothing is rejected in shadow mode', async t => {
  const { reserve } = await start(t, { shadowMode: true })
  assert.equal(reservationOf(await reserve(asking(1500n))).remaining, 1000n)
})

test('bad requests get an error with the field, what was found and what is allowed', async t => {
  const { reserve, commit, extend } = await start(t)
  const long = 'x'.repeat(1_000_000)
  const entries = [{ key: 'tokens', value: 'a' }]
  const table: readonly [() => Promise<unknown>, string][] = [
    [() => reserve(asking(5n, { domain: '' })), 'domain: must not be empty'],
    [() => reserve(asking(5n, { descriptor: { entries: [] } })), 'descriptor.entries: must not be empty'],
    [
      () => reserve(asking(5n, { descriptor: { entries, limit: { requestsPerUnit: 5, unit: 1 } } })),
      'descriptor.limit: must be absent',
    ],
    [
      () => reserve(asking(5n, { descriptor: { entries, hitsAddend: 5n } })),
      'descriptor.hits_addend: must be absent; use amount',
    ],
    [() => reserve(asking(0n)), 'amount: expected at least 1, found 0'],
    [
      () => reserve(asking(2n ** 60n)),
      `amount: expected at most ${Number.MAX_SAFE_INTEGER}, found about ${2 ** 60}`,
    ],
    [() => reserve(asking(5n, { ttl: {} })), 'ttl: expected 0.001s to 86400s, found 0s'],
    [
      () => reserve(asking(5n, { ttl: { seconds: 31_536_000n } })),
      'ttl: expected 0.001s to 86400s, found 31536000s',
    ],
    [() => reserve(asking(5n, { ttl: { seconds: -5n } })), 'ttl: expected 0.001s to 86400s, found -0.001s'],
    [() => reserve(asking(5n, { requestId: long })), 'request_id: expected at most 256 bytes, found 1000000'],
    [() => commit('', 5n), "id: expected an id that Reserve returned, found ''"],
    [() => commit('a.b', 5n), "id: expected an id that Reserve returned, found 'a.b'"],
    [() => commit(long, 5n), 'id: expected an id that Reserve returned, found a text of 1000000 characters'],
    [
      () => commit('a.b.c', 2n ** 63n),
      `actual: expected at most ${Number.MAX_SAFE_INTEGER}, found about ${2 ** 63}`,
    ],
    [() => extend('a.b.c', 90_000n), 'ttl: expected 0.001s to 86400s, found 90000s'],
  ]
  for (const [call, message] of table) assert.deepEqual(await errorOf(call()), ['INVALID_ARGUMENT', message])
  assert.deepEqual(await errorOf(reserve(asking(5n, { ttl: undefined }))), [
    'INVALID_ARGUMENT',
    'ttl: expected 0.001s to 86400s, found none',
  ])
  assert.deepEqual(await errorOf(commit('a.b.c', 5n)), [
    'NOT_FOUND',
    'id: there is no reservation a.b.c, or it ended more than 5 minutes ago',
  ])
})

test('a limit per second in a Redis of its own has no reservations', async t => {
  const { reserve } = await start(t, { hasPerSecondBackend: true })
  const [code, message] = await errorOf(
    reserve(asking(5n, { descriptor: { entries: [{ key: 'burst', value: '' }] } })),
  )
  assert.equal(code, 'FAILED_PRECONDITION')
  assert.match(message, /^descriptor: its limit is per second/)
})
