import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { systemClock } from '@tollway/chassis/clock.ts'
import {
  BucketAnswerSchema,
  CounterAnswerSchema,
  ForgottenSchema,
  HelloSchema,
  CounterAnswer_Outcome as Outcome,
  TotalsSchema,
} from '@tollway/proto/tollway/operator/v1/counters'
import { QueryError } from '../pods/query-error.ts'
import { changeCounter, readCounter } from './counter-queries.ts'
import { type OpenProcessSession, openProcessSession } from './process-session.ts'

const at = { domain: 'shop', entries: [{ key: 'user', value: 'alice' }] }
const deadlines = { counterMs: 50, forgetMs: 50 }

interface Played {
  /** The outcome with which the process answers about counters; undefined for no answer. */
  readonly outcome?: Outcome | undefined
  readonly hello?: MessageInitShape<typeof HelloSchema>
  /** What the process tells beside its counters. */
  readonly told?: MessageInitShape<typeof CounterAnswerSchema>
  /** What the process tells of a bucket; undefined for no answer. */
  readonly bucket?: MessageInitShape<typeof BucketAnswerSchema>
  /** Whether the process has reported the domains that it enforces. */
  readonly hasReported?: boolean
}

/** Plays a process that counts in its own memory, and that adds its name to `forgot` when it drops keys. */
function play(
  uid: string,
  { outcome, hello = {}, told, bucket, hasReported = true }: Played,
  forgot: string[],
) {
  const identity = create(HelloSchema, { uid, pod: uid, backend: 'memory', ...hello })
  const session: OpenProcessSession = openProcessSession(
    identity,
    request => {
      if (request.case === 'counter' && outcome !== undefined) {
        const counters = outcome === Outcome.OK ? [{ rule: 'shop.user', key: 'k', limit: 10n }] : []
        const { id = 0n } = request.value
        const value = create(CounterAnswerSchema, { id, outcome, problem: 'busy', counters, ...told })
        queueMicrotask(() => session.receive({ case: 'counter', value }))
      } else if (request.case === 'bucket' && bucket !== undefined) {
        const { id = 0n } = request.value
        const value = create(BucketAnswerSchema, { ...bucket, id })
        queueMicrotask(() => session.receive({ case: 'bucket', value }))
      } else if (request.case === 'forget') {
        const { id = 0n, domain, entries = [] } = request.value
        assert.deepEqual([domain, entries.length], ['shop', 1])
        forgot.push(uid)
        queueMicrotask(() => session.receive({ case: 'forgotten', value: create(ForgottenSchema, { id }) }))
      }
    },
    systemClock,
  )
  const domains = hasReported ? [{ domain: 'shop', rules: 1, whole: true }] : []
  session.receive({ case: 'totals', value: create(TotalsSchema, { domains }) })
  return session
}

function playAll(processes: Readonly<Record<string, Played>>, expected: readonly string[] = []) {
  const forgot: string[] = []
  const sessions = Object.entries(processes).map(([uid, played]) => play(uid, played, forgot))
  const table = {
    sessions: () => sessions,
    lost: () => [],
    expected: () => expected.map(uid => ({ uid, name: uid })),
  }
  return { table, forgot }
}

test('a pod whose counters fail is missing, and all pods drop the key', async () => {
  const { table, forgot } = playAll({ a: { outcome: Outcome.OK }, b: { outcome: Outcome.NOT_SUPPORTED } })
  const { counters, missing, confirmed } = await changeCounter(table, at, 'reset', deadlines)
  assert.deepEqual([counters.length, missing, confirmed], [1, ['b'], ['a', 'b']])
  assert.deepEqual(forgot, ['a', 'b'])
  assert.deepEqual((await readCounter(table, at, deadlines)).missing, ['b'])
})

for (const outcome of [undefined, Outcome.BACKEND_FAILED])
  test(`all pods drop the key if a change may have happened: ${Outcome[outcome ?? -1]}`, async () => {
    const { table, forgot } = playAll({ a: { outcome }, b: { outcome: Outcome.NO_RULE } })
    await assert.rejects(changeCounter(table, at, 'reset', deadlines), (error: unknown) => {
      return error instanceof QueryError && ['deadline', 'backend-failed'].includes(error.code)
    })
    assert.deepEqual(forgot, ['a', 'b'])
  })

test('a change that no pod has made is an error, and no pod drops a key', async () => {
  const { table, forgot } = playAll({ a: { outcome: Outcome.NO_RULE } })
  await assert.rejects(changeCounter(table, at, 'reset', deadlines), { code: 'no-rule', field: 'entries' })
  assert.deepEqual(forgot, [])
})

test('pods that exist without a session, or with one of two workers, are missing', async () => {
  const outcome = Outcome.OK
  const { table } = playAll({ a: { outcome }, b: { outcome, hello: { worker: 0, workers: 2 } } }, [
    ...['a', 'b', 'c'],
  ])
  const { missing, confirmed } = await changeCounter(table, at, 'reset', deadlines)
  assert.deepEqual([missing, confirmed], [['b', 'c'], ['a']])
  assert.deepEqual((await readCounter(table, at, deadlines)).missing, ['b', 'c'])
})

test('a process that has not reported its domains yet drops the key, too', async () => {
  const { table } = playAll({ a: { outcome: Outcome.OK }, b: { hasReported: false } })
  assert.deepEqual((await changeCounter(table, at, 'reset', deadlines)).confirmed, ['a', 'b'])
})

const reserving = (amount: bigint, ...expiries: readonly bigint[]) => ({
  reservations: {
    ...{
      count: BigInt(expiries.length),
      summed: BigInt(expiries.length),
      amount,
      nextExpiryMs: expiries[0] ?? 0n,
    },
    first: expiries.map(expiresAtMs => ({ id: `id ${expiresAtMs}`, amount: 1n, expiresAtMs })),
  },
})

for (const [title, told, expected] of [
  [
    'the reservations of all pods are summed, in the order of their ends',
    [reserving(6n, 2n, 4n), reserving(5n, 3n), reserving(0n)],
    {
      reservations: {
        ...{ count: 3, summed: 3, amount: 11, nextExpiryMs: 2 },
        first: [2, 3, 4].map(expiresAtMs => ({ id: `id ${expiresAtMs}`, amount: 1, expiresAtMs })),
      },
    },
  ],
  [
    'a pod without reservations has no next end',
    [reserving(0n)],
    { reservations: { count: 0, summed: 0, amount: 0, first: [] } },
  ],
  ['a pod of an earlier version tells no reservations, so there is no sum', [reserving(6n, 2n), {}], {}],
  [
    'the problem of one pod is told in place of the sum',
    [reserving(6n, 2n), { reservationsProblem: 'NOPERM' }],
    { reservationsProblem: 'NOPERM' },
  ],
] as const)
  test(title, async () => {
    const { table } = playAll(
      Object.fromEntries(told.map((each, index) => [`${index}`, { outcome: Outcome.OK, told: each }])),
    )
    const { counters, missing, ...others } = await readCounter(table, at, deadlines)
    assert.deepEqual([counters.length, missing, others], [1, [], expected])
  })

test('at most 100 reservations are listed', async () => {
  const many = Array.from({ length: 90 }, (_, index) => BigInt(index + 1))
  const told = reserving(90n, ...many)
  const { table } = playAll({ a: { outcome: Outcome.OK, told }, b: { outcome: Outcome.OK, told } })
  const { reservations } = await readCounter(table, at, deadlines)
  assert.deepEqual([reservations?.count, reservations?.first.length], [180, 100])
})

test('the algorithm is known if one pod tells it', async () => {
  const told = ['', 'TokenBucket', ''].map(algorithm => ({
    counters: [{ rule: 'shop.user', key: 'k', algorithm }],
  }))
  const { table } = playAll(
    Object.fromEntries(told.map((each, index) => [`${index}`, { outcome: Outcome.OK, told: each }])),
  )
  const { counters } = await readCounter(table, at, deadlines)
  assert.deepEqual([counters.length, counters[0]?.algorithm], [1, 'TokenBucket'])
})

const shared = { outcome: Outcome.OK, told: { shared: true }, hello: { backend: 'redis' } }
const limit = { rule: 'shop.user', tokens: 360_000n, intervalSeconds: 3600 }
const holder = (name: string, wanted: bigint, granted: bigint) => ({
  name,
  wanted,
  granted,
  expiresInMs: 9_000n,
})

/** Returns what the process with this id tells of a bucket that it and two others have. */
function bucketOf(process: string, ...members: readonly ReturnType<typeof holder>[]) {
  const sum = (field: 'wanted' | 'granted') => members.reduce((total, each) => total + each[field], 0n)
  const holders = [
    holder('id-a', 36_000n, 72_000n),
    holder('id-b', 0n, 3_600n),
    holder('10.0.0.9', 0n, 7_200n),
  ]
  const sums = { memberCount: members.length, wanted: sum('wanted'), granted: sum('granted') }
  return { ...limit, ...sums, process, members: [...members], holders }
}

test('the proxies of all pods are listed, and the parts of the pods under their names', async () => {
  const { table } = playAll({
    a: {
      ...shared,
      bucket: bucketOf('id-a', holder('10.0.0.1', 3_600n, 36_000n), holder('10.0.0.2', 0n, 36_000n)),
    },
    b: {
      ...{ ...shared, hello: { backend: 'redis', worker: 1, workers: 1 } },
      bucket: bucketOf('id-b', holder('10.0.0.3', 1_800n, 72_000n)),
    },
  })
  const { shares } = await readCounter(table, at, deadlines)
  const share = (name: string, pod: string, wantedPerSecond: number, grantedPerSecond: number) => {
    return { name, pod, wantedPerSecond, grantedPerSecond, expiresInMs: 9_000 }
  }
  assert.deepEqual(shares, {
    limitPerSecond: 100,
    wantedPerSecond: 1.5,
    grantedPerSecond: 40,
    memberCount: 3,
    members: [
      share('10.0.0.3', 'b/1', 0.5, 20),
      share('10.0.0.1', 'a', 1, 10),
      share('10.0.0.2', 'a', 0, 10),
    ],
    pods: [share('id-a', 'a', 10, 20), share('10.0.0.9', '', 0, 2), share('id-b', 'b/1', 0, 1)],
    missing: [],
  })
  const changed = await changeCounter(table, at, 'reset', deadlines)
  assert.deepEqual(changed.shares, shares)
})

test('a pod that does not tell of its proxies is missing, and so is one without a session', async () => {
  const problem = 'the deadline of the backend'
  const { table } = playAll(
    {
      a: { ...shared, bucket: { ...bucketOf('id-a', holder('10.0.0.1', 1n, 1n)), holders: [], problem } },
      b: { ...shared, hello: { backend: 'redis' } },
      c: { ...shared, bucket: { problem: 'a defect' } },
    },
    ['a', 'b', 'c', 'd'],
  )
  const { shares, missing } = await readCounter(table, at, deadlines)
  assert.deepEqual([shares?.missing, shares?.problem, shares?.memberCount], [['b', 'c', 'd'], problem, 1])
  assert.deepEqual(missing, [], 'the counter is in Redis')
})

test('at most 100 proxies are listed, those with the most', async () => {
  const many = Array.from({ length: 150 }, (_, index) => holder(`p${index}`, 0n, BigInt(3_600 * index)))
  const { table } = playAll({ a: { ...shared, bucket: bucketOf('id-a', ...many) } })
  const { shares } = await readCounter(table, at, deadlines)
  assert.deepEqual(
    [shares?.memberCount, shares?.members.length, shares?.members[0]?.name],
    [150, 100, 'p149'],
  )
})
