import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import type { ReserveRequestSchema, ReserveResponse } from '@tollway/proto/tollway/ratelimit/v1/budgets'
import { callBudgets } from '../../../test/support/call-budgets.ts'
import { startRedis, startSteppedRedis } from '../../../test/support/redis-server.ts'
import { requireProgram } from '../../../test/support/require-server.ts'
import { Budgets } from '../budgets.ts'
import type { Counters } from '../counters/counters.ts'
import { createMemoryCounters } from '../counters/memory.ts'
import type { Reservations } from '../counters/reservations.ts'
import { openRedis } from '../counters/testing/open-redis-counters.ts'
import { compile } from '../rules/compile.ts'
import { makeLimit, makeRule } from '../rules/testing/make-rule.ts'
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

const calendar = { timeZone: 'Europe/Copenhagen' }
const inCopenhagen = (['day', 'month'] as const).map(unit =>
  makeRule(unit, { rateLimit: makeLimit(1000, unit, { calendar }) }),
)

const minuteAndMonth = makeRule('both', {
  limits: [makeLimit(1000, 'minute'), makeLimit(1000, 'month')],
})

interface Options {
  /** Left out for counters in memory. */
  readonly counters?: Counters
  readonly hasPerSecondBackend?: boolean
  readonly shadowMode?: boolean
  readonly reservations?: Reservations
}

async function start(t: TestContext, { counters: given, ...options }: Options = {}) {
  let nowMs = startMs
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  const stats = createStats()
  const limitStats = createLimitStats(stats, () => {})
  const parsed = parseYaml('test.yaml', yaml)
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems))
  const descriptors = [...parsed.value.descriptors, ...inCopenhagen, minuteAndMonth]
  const rules = compile([{ ...parsed.value, descriptors }], {
    mergeDomainConfigs: false,
    attach: limitStats.attach,
  })
  const counters = given ?? createMemoryCounters({ clock })
  const decreased: string[] = []
  const budgets = new Budgets({
    rules: () => rules,
    reservations: counters.reservations,
    clock,
    cacheKeyPrefix: 'p_',
    hasPerSecondBackend: false,
    shadowMode: false,
    nearLimitRatio: 0.8,
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
    /** The statistics of a rule that are not 0. */
    readStats(rule: string) {
      const own = stats.entries().filter(({ name, value }) => name.includes(`.${rule}.`) && value > 0)
      return Object.fromEntries(own.map(({ name, value }) => [name.split('.').at(-1), value]))
    },
    elapse(ms: number) {
      nowMs += ms
    },
    setTime(time: string) {
      nowMs = Date.parse(time)
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

/** The limits, and the seconds after the first call at which the same call is repeated while it is remembered. */
const repeats: Readonly<Record<string, { entry: string; after: readonly number[] }>> = {
  'several windows of a minute beside a month': { entry: 'both', after: [150, 300, 3_650, 3_890] },
  'windows of a second': { entry: 'burst', after: [1, 3, 59, 350] },
  'the end of an hour': { entry: 'tokens', after: [590, 605, 3_890] },
}

for (const backend of ['memory', 'Redis'] as const) {
  for (const [name, { entry, after }] of Object.entries(repeats)) {
    test(`a repeated request reserves once, over ${name}, in ${backend}`, async t => {
      const needsRedis = backend === 'Redis'
      if (needsRedis && !(requireProgram(t, 'redis-server') && requireProgram(t, 'cc'))) return
      const redis = needsRedis ? await startSteppedRedis() : undefined
      t.after(() => redis?.stop())
      const counters = redis && (await openRedis(t, { url: redis.url }))
      const { reserve, setTime: setClock } = await start(t, { ...(counters && { counters }) })
      const setTime = (seconds: number) => {
        const ms = startMs + seconds * 1000
        setClock(new Date(ms).toISOString())
        redis?.setClock(Math.round((ms - Date.now()) / 1000))
      }
      const seconds = entry === 'burst' ? 60n : 3_600n
      const ask = (requestId: string, amount: bigint, value = 'alice') =>
        reserve(
          asking(amount, { requestId, descriptor: { entries: [{ key: entry, value }] }, ttl: { seconds } }),
        )
      setTime(0)
      const { id } = reservationOf(await ask('same', 6n))
      for (const at of after) {
        setTime(at)
        assert.equal(reservationOf(await ask('same', 6n)).id, id, `after ${at} s`)
      }
      const [code] = await errorOf(ask('same', 5n))
      assert.equal(code, 'INVALID_ARGUMENT')
      assert.notEqual(reservationOf(await ask('other', 1n)).id, id)
      assert.notEqual(reservationOf(await ask('same', 6n, 'bob')).id, id, 'another descriptor')
    })
  }
}

for (const backend of ['memory', 'Redis'] as const) {
  test(`a reservation counts once in the statistics of its rule, in ${backend}`, async t => {
    const needsRedis = backend === 'Redis'
    if (needsRedis && !requireProgram(t, 'redis-server')) return
    const redis = needsRedis ? await startRedis() : undefined
    t.after(() => redis?.stop())
    const counters = redis && (await openRedis(t, { url: redis.url }))
    const { reserve, commit, readStats } = await start(t, { ...(counters && { counters }) })
    const named = asking(700n, { requestId: 'r' })
    const { id } = reservationOf(await reserve(named))
    assert.equal(reservationOf(await reserve(named)).id, id)
    assert.deepEqual(readStats('tokens'), { total_hits: 700, within_limit: 700 })
    rejectionOf(await reserve(asking(400n)))
    reservationOf(await reserve(asking(200n)))
    await commit(id, 100n)
    assert.deepEqual(readStats('tokens'), {
      total_hits: 1300,
      within_limit: 900,
      over_limit: 400,
      near_limit: 100,
    })
  })
}

test('a rejected request that is repeated in the next window reserves there, once', async t => {
  const { reserve, elapse } = await start(t)
  const burst = (requestId: string, amount: bigint) =>
    reserve(asking(amount, { requestId, descriptor: { entries: [{ key: 'burst', value: 'a' }] } }))
  reservationOf(await burst('first', 10n))
  rejectionOf(await burst('second', 10n))
  elapse(1_000)
  const { id } = reservationOf(await burst('second', 10n))
  elapse(1_000)
  assert.equal(reservationOf(await burst('second', 10n)).id, id)
  reservationOf(await burst('third', 10n))
})

/**
 * The unit, a minute after its window begins, when an amount is reserved, when it is committed, and whether that
 * is in the next window.
 */
const boundaries = {
  'the end of a month': 'month 2026-12-31T23:01:00Z 2027-01-31T22:59:55Z 2027-01-31T23:00:05Z next',
  'that of a month with 25 hours':
    'month 2027-09-30T22:01:00Z 2027-10-31T22:59:55Z 2027-10-31T23:00:05Z next',
  'the end of a day of 23 hours': 'day 2027-03-27T23:01:00Z 2027-03-28T21:59:55Z 2027-03-28T22:00:05Z next',
  'the end of a day of 25 hours': 'day 2027-10-30T22:01:00Z 2027-10-31T22:59:55Z 2027-10-31T23:00:05Z next',
  'the start of summer time': 'day 2027-03-27T23:01:00Z 2027-03-28T00:59:55Z 2027-03-28T01:00:05Z same',
  'the end of summer time': 'month 2027-09-30T22:01:00Z 2027-10-31T00:59:55Z 2027-10-31T01:00:05Z same',
}

for (const backend of ['memory', 'Redis'] as const) {
  test(`a reservation counts in its window of the calendar, committed after its end, in ${backend}`, async t => {
    const needsRedis = backend === 'Redis'
    if (needsRedis && !(requireProgram(t, 'redis-server') && requireProgram(t, 'cc'))) return
    const redis = needsRedis ? await startSteppedRedis() : undefined
    t.after(() => redis?.stop())
    const counters = redis && (await openRedis(t, { url: redis.url }))
    const { reserve, commit, setTime: setClock } = await start(t, { ...(counters && { counters }) })
    const setTime = (time: string) => {
      setClock(time)
      redis?.setClock(Math.round((Date.parse(time) - Date.now()) / 1000))
    }
    for (const [name, row] of Object.entries(boundaries)) {
      const [unit = '', begin = '', before = '', after = '', which] = row.split(' ')
      const ask = (amount: bigint, requestId = '') =>
        reserve(asking(amount, { descriptor: { entries: [{ key: unit, value: name }] }, requestId }))
      setTime(begin)
      await commit(reservationOf(await ask(50n)).id, 100n)
      setTime(before)
      const { id, remaining } = reservationOf(await ask(600n, 'named'))
      assert.equal(remaining, 300n, name)
      setTime(after)
      assert.equal(reservationOf(await ask(600n, 'named')).id, id, name)
      for (let times = 0; times < 2; times++) assert.equal((await commit(id, 700n)).remaining, 200n, name)
      const whole = await ask(1000n)
      if (which === 'next') assert.equal(reservationOf(whole).remaining, 0n, name)
      else assert.equal(rejectionOf(whole).remaining, 200n, name)
    }
  })
}

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
  const { reserve, commit, release, extend } = await start(t)
  const unknown = `a.${'b'.repeat(22)}.${'c'.repeat(22)}`
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
    [() => reserve(asking(5n, { ttl: { seconds: -5n } })), 'ttl: expected 0.001s to 86400s, found -5s'],
    [
      () => reserve(asking(5n, { ttl: { seconds: -1n, nanos: -500_000_000 } })),
      'ttl: expected 0.001s to 86400s, found -1.5s',
    ],
    [
      () => reserve(asking(5n, { ttl: { nanos: -1 } })),
      'ttl: expected 0.001s to 86400s, found -0.000000001s',
    ],
    [
      () => reserve(asking(5n, { ttl: { nanos: 999_999 } })),
      'ttl: expected 0.001s to 86400s, found 0.000999999s',
    ],
    [
      () => reserve(asking(5n, { ttl: { seconds: 315_576_000_000n } })),
      'ttl: expected 0.001s to 86400s, found 315576000000s',
    ],
    [
      () => reserve(asking(5n, { ttl: { seconds: -(2n ** 63n) } })),
      `ttl: expected 0.001s to 86400s, found ${-(2n ** 63n)}s`,
    ],
    [() => reserve(asking(5n, { requestId: long })), 'request_id: expected at most 256 bytes, found 1000000'],
    [() => commit('', 5n), "id: expected an id that Reserve returned, found ''"],
    [() => commit('a.b', 5n), "id: expected an id that Reserve returned, found 'a.b'"],
    [() => commit(long, 5n), 'id: expected an id that Reserve returned, found a text of 1000000 characters'],
    [
      () => reserve(asking(2n ** 53n)),
      `amount: expected at most ${Number.MAX_SAFE_INTEGER}, found about ${2 ** 53}`,
    ],
    [
      () => reserve(asking(5n, { descriptor: { entries: [{ key: 'tokens', value: long }] } })),
      'descriptor.entries: expected at most 16384 bytes, found 1000006',
    ],
    [() => commit(`${unknown}x`, 5n), `id: expected an id that Reserve returned, found '${unknown}x'`],
    [() => release('a.b.c'), "id: expected an id that Reserve returned, found 'a.b.c'"],
    [
      () => commit(unknown, 2n ** 63n),
      `actual: expected at most ${Number.MAX_SAFE_INTEGER}, found about ${2 ** 63}`,
    ],
    [() => extend(unknown, 90_000n), 'ttl: expected 0.001s to 86400s, found 90000s'],
  ]
  for (const [call, message] of table) assert.deepEqual(await errorOf(call()), ['INVALID_ARGUMENT', message])
  assert.deepEqual(await errorOf(reserve(asking(5n, { ttl: undefined }))), [
    'INVALID_ARGUMENT',
    'ttl: expected 0.001s to 86400s, found none',
  ])
  for (const call of [commit(unknown, 5n), release(unknown), extend(unknown, 5n)]) {
    assert.deepEqual(await errorOf(call), [
      'NOT_FOUND',
      `id: there is no reservation ${unknown}, or it ended more than 5 minutes ago`,
    ])
  }
})

test('a limit per second in a Redis of its own has no reservations', async t => {
  const { reserve } = await start(t, { hasPerSecondBackend: true })
  const [code, message] = await errorOf(
    reserve(asking(5n, { descriptor: { entries: [{ key: 'burst', value: '' }] } })),
  )
  assert.equal(code, 'FAILED_PRECONDITION')
  assert.match(message, /^descriptor: its limit is per second/)
})
